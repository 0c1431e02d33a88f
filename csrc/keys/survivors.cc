#include "keys/survivors.h"

#include <algorithm>

#include "keys/radix.h"
#include "keys/scratch.h"

namespace fleet {
namespace {

// 256 KiB of slots stay in the second-level cache.
constexpr int kMaxSlotBits = 14;

struct Slot {
  std::uint64_t key;
  std::uint64_t position;
};

// 1 if the two differ, else 0, as a number that the compiler knows nothing about: it would make a branch of it, and as
// nobody can predict whether a key was seen before, that takes three times as long.
inline std::uint64_t differ(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = a != b;
  asm("" : "+r"(result));
  return result;
}

// A small cache of the keys seen last decides. It forgets on collision instead of probing, so a key may survive more
// than once, but no input takes longer than another.
template <bool kCounts>
std::size_t drop(const std::int64_t* keys, std::size_t n, std::uint64_t base, std::uint32_t first,
                 const Survivors& out) {
  const int slot_bits = std::min(kMaxSlotBits, bit_width(n));
  Scratch<Slot> slots(std::size_t{1} << slot_bits);
  // The slots start with a key that is there, so that no value has to mean "empty".
  const std::uint64_t first_key = static_cast<std::uint64_t>(keys[0]) - base;
  std::fill_n(slots.data(), slots.size(), Slot{first_key, 0});
  out.keys[0] = first_key;
  out.where[0] = first;
  if (kCounts) {
    std::fill_n(out.counts, n, 0);
    out.counts[0] = 1;
  }
  std::uint64_t count = 1;
  for (std::size_t i = 1; i < n; ++i) {
    const std::uint64_t key = static_cast<std::uint64_t>(keys[i]) - base;
    Slot& slot = slots[(key * 0x9e3779b97f4a7c15u) >> (64 - slot_bits)];
    const std::uint64_t is_new = differ(slot.key, key);
    const std::uint64_t position = count ^ ((count ^ slot.position) & (is_new - 1));
    slot = {key, position};
    out.where[i] = static_cast<std::int64_t>(first + position);
    out.keys[count] = key;
    if (kCounts) ++out.counts[position];
    count += is_new;
  }
  return count;
}

}  // namespace

std::size_t drop_repeats(const std::int64_t* keys, std::size_t n, std::uint64_t base, std::uint32_t first,
                         const Survivors& out) {
  return out.counts == nullptr ? drop<false>(keys, n, base, first, out) : drop<true>(keys, n, base, first, out);
}

}  // namespace fleet
