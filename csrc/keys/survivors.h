// The keys of a run of inputs, without most of their repeats.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fleet {

// Where the survivors of a run go; each array has room for as many as the run has inputs.
struct Survivors {
  std::uint64_t* keys;    // less `base`
  std::uint32_t* counts;  // how many inputs each stands for; null: nobody asks
  std::int64_t* where;    // of each input: `first` + the position of its survivor
};

// Keeps every key of the run at least once, and no input's time depends on the others. n >= 1; returns how many.
std::size_t drop_repeats(const std::int64_t* keys, std::size_t n, std::uint64_t base, std::uint32_t first,
                         const Survivors& out);

}  // namespace fleet
