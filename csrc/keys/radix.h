// Sorting of (key, tag) pairs in linear time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fleet {

// The tag says where the key came from.
struct Tagged {
  std::uint64_t key;
  std::uint32_t tag;
};

// Sorts `pairs` by key, equal keys in any order, and returns where the result lies: in `pairs` or in `spare`, both of
// size n <= 2^32 - 1. `max_key` bounds the keys; the closer it is, the fewer passes.
Tagged* radix_sort(Tagged* pairs, Tagged* spare, std::size_t n, std::uint64_t max_key);

// How many bits x needs.
inline int bit_width(std::uint64_t x) { return x == 0 ? 0 : 64 - __builtin_clzll(x); }

}  // namespace fleet
