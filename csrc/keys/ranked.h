// Distinct keys by sorting, with the last step left to the caller.
#pragma once

#include <cstddef>
#include <cstdint>

#include "keys/array.h"
#include "keys/radix.h"
#include "keys/scratch.h"
#include "keys/unique.h"

namespace fleet {

// What unique_sort finds out before it writes the inverse: input i is distinct()[rank()[where[i]]]. There are fewer
// ranks than inputs, so who numbers the distinct keys in another way changes the ranks.
class Ranked {
 public:
  // n >= 1, and `bounds` bound the keys.
  Ranked(const std::int64_t* keys, std::size_t n, Bounds bounds);

  const std::int64_t* distinct() const { return distinct_.data(); }  // in signed order
  std::size_t num_distinct() const { return num_distinct_; }
  std::uint32_t* rank() { return rank_.data(); }
  std::size_t num_ranks() const { return num_ranks_; }

  Array<std::int64_t> where;  // of size n

 private:
  Scratch<Tagged> kept_;
  std::size_t num_ranks_;
  Scratch<Tagged> spare_;
  Scratch<std::int64_t> distinct_;
  Scratch<std::uint32_t> rank_;
  std::size_t num_distinct_;
};

}  // namespace fleet
