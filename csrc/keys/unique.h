// Distinct keys of a batch, and where each input key is among them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "keys/array.h"

namespace fleet {

struct Unique {
  Array<std::int64_t> keys;     // distinct, in signed order
  Array<std::int64_t> inverse;  // keys[inverse[i]] is input i
};

// Positions are 32-bit inside, and one more key is kept than was given.
constexpr std::size_t kMaxUnique = 0xfffffffe;

// Linear in n for every input; the result depends on the input alone. Requires n <= kMaxUnique.
Unique unique(const std::int64_t* keys, std::size_t n);

// The least and the greatest of n >= 1 keys.
struct Bounds {
  std::int64_t min;
  std::int64_t max;
};
Bounds bounds_of(const std::int64_t* keys, std::size_t n);

// How many parts the threads of the shared team best make of n keys.
std::size_t parts_for_keys(std::size_t n);

// Whether n keys lie so close together that unique_dense is the better way.
bool lie_close(Bounds bounds, std::size_t n);

// The two ways to it. unique() chooses; tests call each. `min` and `max` bound the keys; n >= 1.
// The keys must not change meanwhile: unique_dense indexes by them unchecked, as a clamp slowed it by 4 to 17 %.

// A bitmap over [min, max], for ids that lie close together: no hash and no sort. Time and memory grow with the range.
Unique unique_dense(const std::int64_t* keys, std::size_t n, std::int64_t min, std::int64_t max);

// A cache that drops most repeats, then a radix sort of what is left: no input is bad for it.
Unique unique_sort(const std::int64_t* keys, std::size_t n, std::int64_t min, std::int64_t max);

}  // namespace fleet
