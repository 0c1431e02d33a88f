// Keys that are hard on one part or another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

inline std::vector<std::vector<std::int64_t>> hard_inputs() {
  using Keys = std::vector<std::int64_t>;
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  std::mt19937_64 random(7);
  std::vector<Keys> inputs{{0}, {kMin}, {kMax}, {kMax, kMin}, {kMin, -1, 0, 1, kMax, kMin, 0}, Keys(5000, -1)};
  for (const std::size_t n : {2u, 255u, 256u, 257u, 20000u}) {
    Keys any(n), few(n), near(n), up(n), down(n), strided(n), crowded(n), one_slot(n);
    for (std::size_t i = 0; i < n; ++i) {
      const auto k = static_cast<std::int64_t>(i);
      any[i] = static_cast<std::int64_t>(random());
      few[i] = any[random() % std::min<std::size_t>(i + 1, 10)];
      near[i] = static_cast<std::int64_t>(random() % n) - 50;
      up[i] = k * 100;
      down[i] = -k * 100;
      strided[i] = static_cast<std::int64_t>(std::uint64_t{i} << 40);
      // All but the ends share their high bits, in descending order: the shortcut of the radix sort must give up.
      crowded[i] = i == 0 ? kMin : i == 1 ? kMax : static_cast<std::int64_t>(n - i);
      // Multiples of the multiplier's inverse: the products i are small, so all keys meet in the cache's first slot.
      one_slot[i] = static_cast<std::int64_t>(i * 0xf1de83e19937733du);
    }
    for (Keys* keys : {&any, &few, &near, &up, &down, &strided, &crowded, &one_slot}) inputs.push_back(*keys);
  }
  return inputs;
}
