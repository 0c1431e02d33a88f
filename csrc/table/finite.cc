#include "table/finite.h"

#include <algorithm>
#include <cstdint>

#include "table/half.h"

namespace fleet {

// On the bits, so that the compiler may check several at once.
bool all_finite(const float* values, std::size_t n) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < n; ++i) {
    found |= static_cast<std::uint32_t>((bits_of(values[i]) & 0x7f800000u) == 0x7f800000u);
  }
  return found == 0;
}

// Magnitudes are in the order of their bits. Sixteen lanes, so that no comparison waits for the one before.
float largest(const float* values, std::size_t n) {
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

}  // namespace fleet
