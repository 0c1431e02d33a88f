#include "table/finite.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "keys/scratch.h"
#include "table/half.h"
#include "threads/team.h"

namespace fleet {
namespace {

// Less than a thread is worth: some tens of microseconds' reading.
constexpr std::size_t kLeast = std::size_t{1} << 17;

// On the bits, so that the compiler may check several at once.
bool run_is_finite(const float* values, std::size_t n) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < n; ++i) {
    found |= static_cast<std::uint32_t>((bits_of(values[i]) & 0x7f800000u) == 0x7f800000u);
  }
  return found == 0;
}

// Magnitudes are in the order of their bits. Sixteen lanes, so that no comparison waits for the one before.
float largest_of_run(const float* values, std::size_t n) {
  constexpr std::size_t kLanes = 16;
  std::int32_t most[kLanes] = {};
  const auto take = [&](std::size_t lane, float value) {
    const auto bits = static_cast<std::int32_t>(bits_of(value) & 0x7fffffffu);
    most[lane] = bits > most[lane] ? bits : most[lane];
  };
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) take(lane, values[i + lane]);
  }
  for (; i < n; ++i) take(0, values[i]);
  const std::int32_t all = *std::max_element(most, most + kLanes);
  return float_of(static_cast<std::uint32_t>(std::min(all, 0x7f800000)));
}

}  // namespace

bool all_finite(const float* values, std::size_t n) {
  if (n < kLeast) return run_is_finite(values, n);
  const std::size_t num_parts = parts_for(n, kLeast);
  std::atomic<bool> finite{true};
  Team::shared().parallel_for(num_parts, [&](std::size_t part) {
    const auto [begin, end] = slice_of(n, num_parts, part);
    if (!run_is_finite(values + begin, end - begin)) finite = false;
  });
  return finite;
}

float largest(const float* values, std::size_t n) {
  if (n < kLeast) return largest_of_run(values, n);
  const std::size_t num_parts = parts_for(n, kLeast);
  Scratch<float> most(num_parts);
  Team::shared().parallel_for(num_parts, [&](std::size_t part) {
    const auto [begin, end] = slice_of(n, num_parts, part);
    most[part] = largest_of_run(values + begin, end - begin);
  });
  return *std::max_element(most.data(), most.data() + num_parts);
}

}  // namespace fleet
