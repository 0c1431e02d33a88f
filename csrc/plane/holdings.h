// What a server holds, as requests see it: tables and dense parameters. Answers pulls, applies pushes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plane/dense.h"
#include "plane/gradients.h"
#include "plane/reader.h"
#include "table/table.h"

namespace fleet::plane {

class Holdings {
 public:
  // `dense` may be null: the dense parameters are elsewhere, and what is about them is not for this.
  Holdings(std::vector<std::shared_ptr<Table>> tables, Reader reader, std::shared_ptr<Dense> dense,
           bool skip_nonfinite);

  std::size_t num_tables() const { return tables_.size(); }
  Table& table(std::size_t index) const { return *tables_[index]; }
  const std::shared_ptr<Dense>& dense() const { return dense_; }
  const Reader& reader() const { return reader_; }

  // Whether the pushes of one step can be applied, all of them, so far as numbers tell: no gradient is, or adds up to,
  // a NaN or an Inf, and all have the same learning rates. False means that somebody must look closer.
  bool is_safe(const std::vector<const Gradients*>& step) const;
  struct How {
    std::uint32_t time;
    std::size_t num_pushes;
    double factor = 1;                            // by which the mean is multiplied, but that of exact groups
    std::vector<std::uint64_t> skip_shards = {};  // bits for each table; empty: none
  };
  // Applies the mean of the pushes of one step, which come in the order of the workers. The number of rows and groups
  // that were skipped for a NaN or an Inf.
  std::size_t apply(const std::vector<const Gradients*>& step, const How& how) const;
  // What one step does to each dense group that it has gradients for.
  std::vector<Dense::Update> dense_updates(const std::vector<const Gradients*>& step, double factor) const;

  // Bytes of the rows, as they travel.
  std::size_t row_bytes(const Wanted& wanted) const {
    return wanted.n * fleet::row_bytes(wanted.format, width(wanted.table));
  }
  std::size_t width(std::size_t table) const { return tables_[table]->format().width; }
  void pull(const Wanted& wanted, std::byte* to) const;
  // How the values of a dense group travel where a format is asked for.
  WireFormat format_of(std::size_t group, WireFormat asked) const {
    return reader_.job().groups[group].is_exact ? WireFormat::kFloat32 : asked;
  }

 private:
  std::size_t apply_table(std::size_t table, const std::vector<const Gradients*>& step, const How& how) const;

  std::vector<std::shared_ptr<Table>> tables_;
  Reader reader_;
  std::shared_ptr<Dense> dense_;
  bool skip_nonfinite_;
};

}  // namespace fleet::plane
