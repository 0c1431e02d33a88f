#include <algorithm>
#include <utility>

#include "keys/radix.h"
#include "keys/ranked.h"
#include "keys/scratch.h"
#include "keys/unique.h"

namespace fleet {
namespace {

// 256 KiB of slots stay in the second-level cache.
constexpr int kMaxSlotBits = 14;

struct Slot {
  std::uint64_t key;
  std::uint64_t position;
};

// Drops most repeats: `kept` takes the keys that survive, less `base` and tagged with their position in `kept`;
// where[i] is the position of input i. Returns how many survived; `kept` needs room for n + 1.
//
// A small cache of the keys seen last decides. It forgets on collision instead of probing, so a key may survive more
// than once, but no input takes longer than another; and no branch depends on the data, so none is mispredicted.
std::size_t drop_repeats(const std::int64_t* keys, std::size_t n, std::uint64_t base, Tagged* kept,
                         std::int64_t* where) {
  const int slot_bits = std::min(kMaxSlotBits, bit_width(n));
  Scratch<Slot> slots(std::size_t{1} << slot_bits);
  // The slots start with a key that is there, so that no value has to mean "empty".
  const std::uint64_t first = static_cast<std::uint64_t>(keys[0]) - base;
  std::fill_n(slots.data(), slots.size(), Slot{first, 0});
  kept[0] = {first, 0};
  std::uint64_t count = 1;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t key = static_cast<std::uint64_t>(keys[i]) - base;
    Slot& slot = slots[(key * 0x9e3779b97f4a7c15u) >> (64 - slot_bits)];
    const bool seen = slot.key == key;
    const std::uint64_t position = seen ? slot.position : count;
    slot = {key, position};
    where[i] = static_cast<std::int64_t>(position);
    kept[count] = {key, static_cast<std::uint32_t>(count)};
    count += !seen;
  }
  return count;
}

}  // namespace

Ranked::Ranked(const std::int64_t* keys, std::size_t n, Bounds bounds)
    : where(n),
      kept_(n + 1),
      num_ranks_(drop_repeats(keys, n, static_cast<std::uint64_t>(bounds.min), kept_.data(), where.data())),
      spare_(num_ranks_),
      distinct_(num_ranks_),
      rank_(num_ranks_) {
  const auto base = static_cast<std::uint64_t>(bounds.min);
  const std::uint64_t range = static_cast<std::uint64_t>(bounds.max) - base;
  const Tagged* sorted = radix_sort(kept_.data(), spare_.data(), num_ranks_, range);
  std::int64_t* const distinct = distinct_.data();
  std::uint32_t* const rank = rank_.data();
  std::uint64_t previous = sorted[0].key;
  std::uint32_t last = 0;
  for (std::size_t i = 0; i < num_ranks_; ++i) {
    const Tagged pair = sorted[i];
    last += pair.key != previous;
    previous = pair.key;
    distinct[last] = static_cast<std::int64_t>(pair.key + base);
    rank[pair.tag] = last;
  }
  num_distinct_ = std::size_t{last} + 1;
}

Unique unique_sort(const std::int64_t* keys, std::size_t n, std::int64_t min, std::int64_t max) {
  Ranked ranked(keys, n, {min, max});
  Array<std::int64_t> distinct(ranked.num_distinct());
  std::copy_n(ranked.distinct(), distinct.size(), distinct.data());
  Array<std::int64_t> inverse = std::move(ranked.where);
  const std::uint32_t* rank = ranked.rank();
  for (std::size_t i = 0; i < n; ++i) inverse[i] = rank[inverse[i]];
  return {std::move(distinct), std::move(inverse)};
}

}  // namespace fleet
