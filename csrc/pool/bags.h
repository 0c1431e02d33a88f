// Bags of rows: a slot that holds any number of ids gives their sum or mean.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pool/gather.h"

namespace fleet {

// Bag b holds the rows inverse[start[b]] .. inverse[end of b), where the next bag begins: start[b + 1] if there are
// more than b + 1 starts, else n. So `num_starts` is either the number of bags, as torch's EmbeddingBag has it, or one
// more.
struct Bags {
  const std::int64_t* inverse;
  std::size_t n;
  const std::int64_t* start;
  std::size_t num_starts;
  std::size_t num_bags;
  bool mean;                  // else the sum
  std::int64_t padding = -1;  // a row of zeros that does not count in a mean; -1: none
};

// Where the rows of one bag stand in the inverse.
struct Span {
  std::size_t begin;
  std::size_t end;
};

inline Span bag(const Bags& bags, std::size_t b) {
  const auto begin = static_cast<std::size_t>(bags.start[b]);
  return {begin, b + 1 < bags.num_starts ? static_cast<std::size_t>(bags.start[b + 1]) : bags.n};
}

// Whether the starts begin with 0, never decrease and stay within n. The functions below take it for granted.
bool starts_ascend(const Bags& bags);

// out[b] = the sum or mean of bag b's rows, in order; zeros for an empty one. `stride` floats from one to the next.
void pool_bags(RowsOf<const float> rows, const Bags& bags, float* out, std::ptrdiff_t stride);

// grad_rows[row] += the gradient of each use of the row, bag by bag: always the same bits.
void unpool_bags(const float* grad_out, std::ptrdiff_t stride, const Bags& bags, RowsOf<float> grad_rows);

}  // namespace fleet
