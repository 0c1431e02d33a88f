// Rows to the places of a batch that use them, and gradients back.
//
// The rows are the distinct ones of a pull; the inverse says which of them a place uses (keys/route.h). Every function
// of this folder takes it for granted that the inverse names rows that exist: ask `all_below` first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fleet {

// Whether each of index[0 .. n) is in 0 .. limit - 1.
bool all_below(const std::int64_t* index, std::size_t n, std::size_t limit);

// The places of a batch: one per sample and slot. The inverse comes slot by slot, that of slot s in sample b at
// inverse[s * batch + b]. The samples lie `stride` floats apart, and in a sample the slots' rows follow each other: a
// matrix with a row per sample takes them side by side, from any column on. One slot is an ordinary lookup.
struct Places {
  const std::int64_t* inverse;
  std::size_t num_slots;
  std::size_t batch;
  std::ptrdiff_t stride;
};

// The distinct rows: `num_rows` of `width` floats each, one after the other.
template <class Float>
struct RowsOf {
  Float* data;
  std::size_t num_rows;
  std::size_t width;
};

// out[place] = rows[inverse[place]].
void gather(RowsOf<const float> rows, const Places& places, float* out);

// grad_rows[inverse[place]] += grad_out[place], sample by sample and within a sample slot by slot: always the same
// bits.
void scatter(const float* grad_out, const Places& places, RowsOf<float> grad_rows);

}  // namespace fleet
