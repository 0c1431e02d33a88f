#include "keys/unique.h"

#include <algorithm>

namespace fleet {

Unique unique(const std::int64_t* keys, std::size_t n) {
  if (n == 0) return {Array<std::int64_t>(0), Array<std::int64_t>(0)};

  std::int64_t min = keys[0], max = keys[0];
  for (std::size_t i = 1; i < n; ++i) {
    min = std::min(min, keys[i]);
    max = std::max(max, keys[i]);
  }

  // Up to 32 values of the range per key the bitmap is the smaller of the two.
  const std::uint64_t range = static_cast<std::uint64_t>(max) - static_cast<std::uint64_t>(min);
  if (range / 64 < n / 2 + 1) return unique_dense(keys, n, min, max);
  return unique_sort(keys, n, min, max);
}

}  // namespace fleet
