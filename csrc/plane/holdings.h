// What a server holds, as requests see it: tables and dense parameters. Reads pulls, reads and applies pushes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plane/dense.h"
#include "plane/message.h"
#include "table/table.h"

namespace fleet::plane {

// Rows that somebody wants: the keys of one table.
struct Wanted {
  std::uint32_t table;
  const std::int64_t* keys;
  std::size_t n;
  Table::Missing missing;
};

// A push that fits the job; what it points to belongs to the message.
struct Gradients {
  struct Part {
    std::uint32_t table;
    double lr;
    const std::int64_t* keys;
    std::size_t n;
    const float* grads;
    const std::uint32_t* counts;  // or null
    const float* shows;           // or null, and so are clicks
    const float* clicks;
    mutable float largest = -1;  // of the magnitudes of grads, once somebody has asked
  };
  struct Group {
    std::uint32_t group;
    double lr;
    const float* grads;
    mutable float largest = -1;
  };
  std::vector<Part> parts;
  std::vector<Group> dense;
  std::vector<Wanted> pulls;  // rows that it also wants
  std::size_t num_rows = 0;   // of all parts
};

class Holdings {
 public:
  // `reads_zeros`: for each table, whether a key without a row that is only read is zeros. `dense` may be null: then
  // requests that are about dense parameters are not for this.
  Holdings(std::vector<std::shared_ptr<Table>> tables, std::vector<bool> reads_zeros, std::shared_ptr<Dense> dense,
           bool skip_nonfinite);

  std::size_t num_tables() const { return tables_.size(); }
  Table& table(std::size_t index) const { return *tables_[index]; }
  const std::shared_ptr<Dense>& dense() const { return dense_; }
  bool skips_nonfinite() const { return skip_nonfinite_; }

  // False if a request does not fit the job, or is not for this: who asks Python is told why.
  bool read(const PullHeader& header, const Message& message, std::vector<Wanted>& wanted) const;
  bool read(const PushHeader& header, const Message& message, Gradients& gradients) const;

  // Whether the pushes of one step can be applied, all of them, so far as numbers tell: no gradient is, or adds up to,
  // a NaN or an Inf, and all have the same learning rates. False means that somebody must look closer.
  bool is_safe(const std::vector<const Gradients*>& step) const;
  // Applies the mean of the pushes of one step, which come in the order of the workers. `skip_shards` has bits for each
  // table, or is empty. The number of rows and groups that were skipped for a NaN or an Inf.
  std::size_t apply(const std::vector<const Gradients*>& step, std::uint32_t time, std::size_t num_pushes,
                    const std::vector<std::uint64_t>& skip_shards) const;

  // Bytes of the rows.
  std::size_t row_bytes(const Wanted& wanted) const { return wanted.n * width(wanted.table) * sizeof(float); }
  std::size_t width(std::size_t table) const { return tables_[table]->format().width; }
  void pull(const Wanted& wanted, std::byte* to) const;

 private:
  bool read_wanted(const std::vector<std::uint32_t>& tables, const std::vector<std::uint32_t>& only_read,
                   const Extent* tensors, std::size_t num_tensors, std::vector<Wanted>& wanted) const;
  std::size_t apply_table(std::size_t table, const std::vector<const Gradients*>& step, std::uint32_t time,
                          std::size_t num_pushes, std::uint64_t skip_shards) const;

  std::vector<std::shared_ptr<Table>> tables_;
  std::vector<bool> reads_zeros_;
  std::shared_ptr<Dense> dense_;
  bool skip_nonfinite_;
};

}  // namespace fleet::plane
