// Which keys have a place in a cache of rows that lies elsewhere, as in GPU memory (docs/adr/0035); the rows are not
// here.
//
// Every key of a call to `place` gets a slot. Where there is none left, the keys that were used least lose theirs: a
// hand goes round and halves the uses of what it passes, and a key without any goes. Keys of a call that somebody still
// works with never go: rather than that, the cache grows. Large caches are cut into shards, which the threads of the
// shared team work on; results are the same however many there are. One call at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "table/index.h"

namespace fleet {

class SlotIndex {
 public:
  explicit SlotIndex(std::size_t capacity);

  struct Placed {
    std::vector<std::int64_t> new_keys;  // that were not there
    std::vector<std::int64_t> new_slots;
    std::vector<std::int64_t> gone_keys;
    std::vector<std::int64_t> gone_slots;  // which some of the new keys have now
  };
  // Writes the slot of each of n distinct keys. `now` is larger than in any call before; keys whose last call was
  // `oldest` or later stay.
  Placed place(const std::int64_t* keys, std::size_t n, std::uint64_t now, std::uint64_t oldest, std::int64_t* slots);

  // Every key and its slot, in any order: arrays of `size`.
  void all(std::int64_t* keys, std::int64_t* slots) const;

  std::size_t size() const;
  // Slots are below it. It grows where a call needs more than there are.
  std::size_t num_slots() const { return shards_.size() * room_ + num_more_; }

 private:
  static constexpr std::size_t kShards = 64;
  static constexpr std::size_t kWorthShards = std::size_t{1} << 16;  // a smaller cache has one
  static constexpr std::uint8_t kMostUses = 7;
  static constexpr std::size_t kRounds = 5;  // of the hand: enough to bring the most uses to none

  struct Entry {
    std::int64_t key;
    std::uint64_t stamp;  // of the last call that had it
    std::uint32_t slot;
    std::uint8_t uses;
  };
  struct Shard {
    Index index;
    std::vector<Entry> entries;
    std::size_t hand = 0;
  };

  std::size_t shard_of(std::uint64_t hash) const { return shards_.size() == 1 ? 0 : hash % kShards; }
  // Of some keys, those that are there get their slots, and the positions of the others are noted.
  void find(const std::int64_t* keys, std::size_t first, std::size_t last, std::uint64_t now, std::int64_t* slots,
            std::vector<std::uint32_t>& missing);
  // Slots for the keys of a shard that are not there, given by their positions.
  void add(std::size_t s, const std::int64_t* keys, const std::vector<std::uint32_t>& missing, std::uint64_t now,
           std::uint64_t oldest, std::int64_t* slots, Placed& placed);
  // An entry for a key of a shard: a new one, or that of a key which goes.
  std::uint32_t enter(std::size_t s, std::uint64_t oldest, Placed& placed);

  std::size_t room_;  // of each shard
  std::atomic<std::size_t> num_more_{0};
  std::vector<Shard> shards_;
};

}  // namespace fleet
