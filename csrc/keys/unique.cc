#include "keys/unique.h"

#include <algorithm>

namespace fleet {

Bounds bounds_of(const std::int64_t* keys, std::size_t n) {
  Bounds bounds{keys[0], keys[0]};
  for (std::size_t i = 1; i < n; ++i) {
    bounds.min = std::min(bounds.min, keys[i]);
    bounds.max = std::max(bounds.max, keys[i]);
  }
  return bounds;
}

// Up to 32 values of the range per key the bitmap is the smaller of the two.
bool lie_close(Bounds bounds, std::size_t n) {
  const std::uint64_t range = static_cast<std::uint64_t>(bounds.max) - static_cast<std::uint64_t>(bounds.min);
  return range / 64 < n / 2 + 1;
}

Unique unique(const std::int64_t* keys, std::size_t n) {
  if (n == 0) return {Array<std::int64_t>(0), Array<std::int64_t>(0)};
  const Bounds bounds = bounds_of(keys, n);
  if (lie_close(bounds, n)) return unique_dense(keys, n, bounds.min, bounds.max);
  return unique_sort(keys, n, bounds.min, bounds.max);
}

}  // namespace fleet
