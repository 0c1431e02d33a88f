// Rows as the servers answered them, back in the order of the keys: the inverse of split.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fleet {

// The rows of one server, one after the other.
struct Piece {
  const void* rows;
  std::size_t num_rows;
};

// Copies row i of the pieces, taken one after the other, to out[order[i]]. Rows are `row_bytes` long. Requires as many
// orders as rows, and room for as many in `out`. Returns false, and leaves `out` alone, unless `order` names every row
// of `out` once.
bool merge(const Piece* pieces, std::size_t num_pieces, std::size_t row_bytes, const std::int64_t* order, void* out);

}  // namespace fleet
