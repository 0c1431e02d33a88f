// The random numbers of a row: splitmix64, begun at a point that (seed, key) choose. Each 64-bit output makes two
// draws, its low half first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "keys/hash.h"

namespace fleet {

// Calls use(i, u) for i = 0..width - 1, with u strictly between 0 and 1, an odd multiple of 2^-33: u and 1 - u are
// equally likely, and the mean is 1/2.
template <class Use>
void draw(std::uint64_t seed, std::int64_t key, std::size_t width, Use use) {
  constexpr double kStep = 1.0 / 4294967296.0;
  auto state = mix64(static_cast<std::int64_t>(seed ^ static_cast<std::uint64_t>(key)));
  for (std::size_t i = 0; i < width; i += 2) {
    const std::uint64_t bits = mix64(static_cast<std::int64_t>(state));
    state += 0x9e3779b97f4a7c15u;
    use(i, (static_cast<double>(bits & 0xffffffffu) + 0.5) * kStep);
    if (i + 1 < width) use(i + 1, (static_cast<double>(bits >> 32) + 0.5) * kStep);
  }
}

}  // namespace fleet
