// How updates of rows in 16 bits are rounded: up or down by chance, so that the mean is the exact value. To the
// nearest, updates of less than half a step between two numbers would be lost, however many there are.
//
// A contract of repeated runs: the draws are a function of (seed, key, step, element) alone, so that a run, or a replay
// of its pushes, gives the same bits again. The tests pin values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "keys/hash.h"

namespace fleet {

// The state that the draws of a row begin with, for one push.
inline std::uint64_t rounding_state(std::uint64_t seed, std::int64_t key, std::uint32_t step) {
  const std::uint64_t row = mix64(static_cast<std::int64_t>(seed ^ static_cast<std::uint64_t>(key)));
  return mix64(static_cast<std::int64_t>(row + step * 0xd1342543de82ef95u));
}

// Four draws, the lowest first; moves the state on.
inline std::uint64_t next_draws(std::uint64_t& state) {
  __extension__ using Wide = unsigned __int128;
  state += 0xa0761d6478bd642fu;
  const Wide product = static_cast<Wide>(state) * (state ^ 0xe7037ed1a0b428dbu);
  return static_cast<std::uint64_t>(product >> 64) ^ static_cast<std::uint64_t>(product);
}

// stored[i] = values[i], rounded by draw i.
template <class Half>
void store_by_chance(const float* __restrict values, std::size_t width, std::uint64_t state,
                     std::uint16_t* __restrict stored) {
  constexpr std::size_t kChunk = 64;
  std::uint16_t draws[kChunk];
  for (std::size_t begin = 0; begin < width; begin += kChunk) {
    const std::size_t n = std::min(kChunk, width - begin);
    for (std::size_t i = 0; i < n; i += 4) {
      const std::uint64_t bits = next_draws(state);
      draws[i] = static_cast<std::uint16_t>(bits);
      draws[i + 1] = static_cast<std::uint16_t>(bits >> 16);
      draws[i + 2] = static_cast<std::uint16_t>(bits >> 32);
      draws[i + 3] = static_cast<std::uint16_t>(bits >> 48);
    }
    for (std::size_t i = 0; i < n; ++i) stored[begin + i] = Half::store(values[begin + i], draws[i]);
  }
}

}  // namespace fleet
