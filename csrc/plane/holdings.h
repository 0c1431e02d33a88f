// What a server holds, as requests see it: tables and dense parameters. Reads pulls, reads and applies pushes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plane/dense.h"
#include "plane/gradients.h"
#include "plane/message.h"
#include "table/table.h"

namespace fleet::plane {

class Holdings {
 public:
  // `reads_zeros`: for each table, whether a key without a row that is only read is zeros. `dense` may be null: then
  // requests that are about dense parameters are not for this. `exact_groups`: for each dense group, whether its values
  // travel as float32, whatever is asked for.
  Holdings(std::vector<std::shared_ptr<Table>> tables, std::vector<bool> reads_zeros, std::shared_ptr<Dense> dense,
           std::vector<bool> exact_groups, bool skip_nonfinite);

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

  // Bytes of the rows, as they travel.
  std::size_t row_bytes(const Wanted& wanted) const {
    return wanted.n * fleet::row_bytes(wanted.format, width(wanted.table));
  }
  std::size_t width(std::size_t table) const { return tables_[table]->format().width; }
  void pull(const Wanted& wanted, std::byte* to) const;
  // How the values of a dense group travel where a format is asked for.
  WireFormat format_of(std::size_t group, WireFormat asked) const {
    return exact_groups_[group] ? WireFormat::kFloat32 : asked;
  }

 private:
  // Larger ones are decoded by Python, which counts them among the messages that are under way.
  static constexpr std::size_t kMostDecoded = std::size_t{64} << 20;

  bool read_wanted(const std::vector<std::uint32_t>& tables, const std::vector<std::uint32_t>& only_read,
                   const std::vector<std::uint32_t>& formats, const Extent* tensors, std::size_t num_tensors,
                   std::vector<Wanted>& wanted) const;
  bool read_part(const PushHeader::Table& entry, const Extent*& next, const Extent* end, Gradients& gradients) const;
  bool read_dense(const PushHeader& header, const Extent* next, const Extent* end, Gradients& gradients) const;
  std::size_t apply_table(std::size_t table, const std::vector<const Gradients*>& step, std::uint32_t time,
                          std::size_t num_pushes, std::uint64_t skip_shards) const;

  std::vector<std::shared_ptr<Table>> tables_;
  std::vector<bool> reads_zeros_;
  std::shared_ptr<Dense> dense_;
  std::vector<bool> exact_groups_;
  bool skip_nonfinite_;
};

}  // namespace fleet::plane
