#include "keys/unique.h"

#include <algorithm>

#include "keys/scratch.h"
#include "threads/team.h"

namespace fleet {

namespace {

Bounds bounds_of_run(const std::int64_t* keys, std::size_t n) {
  Bounds bounds{keys[0], keys[0]};
  for (std::size_t i = 1; i < n; ++i) {
    bounds.min = std::min(bounds.min, keys[i]);
    bounds.max = std::max(bounds.max, keys[i]);
  }
  return bounds;
}

}  // namespace

Bounds bounds_of(const std::int64_t* keys, std::size_t n) {
  const std::size_t num_parts = parts_for_keys(n);
  if (num_parts == 1) return bounds_of_run(keys, n);
  Scratch<Bounds> found(num_parts);
  Team::shared().parallel_for(num_parts, [&](std::size_t part) {
    const auto [begin, end] = slice_of(n, num_parts, part);
    found[part] = bounds_of_run(keys + begin, end - begin);
  });
  Bounds bounds = found[0];
  for (std::size_t part = 1; part < num_parts; ++part) {
    bounds = {std::min(bounds.min, found[part].min), std::max(bounds.max, found[part].max)};
  }
  return bounds;
}

std::size_t parts_for_keys(std::size_t n) {
  constexpr std::size_t kWorthAThread = std::size_t{1} << 15;
  return parts_for(n, kWorthAThread);
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
