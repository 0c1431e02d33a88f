#include "cache/slot_index.h"

#include <algorithm>

#include "keys/hash.h"
#include "threads/team.h"

namespace fleet {

namespace {

constexpr std::size_t kGroup = 256;          // keys whose memory is asked for at once
constexpr std::size_t kWorthAThread = 4096;  // keys

void append(std::vector<std::int64_t>& to, const std::vector<std::int64_t>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

SlotIndex::SlotIndex(std::size_t capacity)
    : room_(capacity < kWorthShards ? capacity : (capacity + kShards - 1) / kShards),
      shards_(capacity < kWorthShards ? 1 : kShards) {}

SlotIndex::Placed SlotIndex::place(const std::int64_t* keys, std::size_t n, std::uint64_t now, std::uint64_t oldest,
                                   std::int64_t* slots) {
  // Keys are distinct, so that no two threads touch the same entry.
  const std::size_t num_parts = fine_parts_for(n, kWorthAThread);
  std::vector<std::vector<std::uint32_t>> missing(num_parts);
  Team::shared().parallel_for(num_parts, [&](std::size_t part) {
    const Slice mine = slice_of(n, num_parts, part);
    find(keys, mine.begin, mine.end, now, slots, missing[part]);
  });
  // Only now: a key of this call must not lose its slot to another. Those that are missing go to their shards in order.
  std::vector<std::vector<std::uint32_t>> of_shard(shards_.size());
  for (const auto& part : missing) {
    for (const std::uint32_t at : part) of_shard[shard_of(mix64(keys[at]))].push_back(at);
  }
  std::vector<Placed> placed(shards_.size());
  Team::shared().parallel_for(
      shards_.size(), [&](std::size_t s) { add(s, keys, of_shard[s], now, std::min(oldest, now), slots, placed[s]); });
  Placed all = std::move(placed[0]);
  for (std::size_t s = 1; s < placed.size(); ++s) {
    append(all.new_keys, placed[s].new_keys);
    append(all.new_slots, placed[s].new_slots);
    append(all.gone_keys, placed[s].gone_keys);
    append(all.gone_slots, placed[s].gone_slots);
  }
  return all;
}

void SlotIndex::find(const std::int64_t* keys, std::size_t first, std::size_t last, std::uint64_t now,
                     std::int64_t* slots, std::vector<std::uint32_t>& missing) {
  std::uint64_t hashes[kGroup];
  std::uint32_t found[kGroup];
  for (std::size_t begin = first; begin < last; begin += kGroup) {
    const std::size_t count = std::min(kGroup, last - begin);
    for (std::size_t i = 0; i < count; ++i) {
      hashes[i] = mix64(keys[begin + i]);
      const Index& index = shards_[shard_of(hashes[i])].index;
      if (index.size() != 0) index.prefetch(Index::place(hashes[i]));
    }
    for (std::size_t i = 0; i < count; ++i) {
      Shard& shard = shards_[shard_of(hashes[i])];
      found[i] = shard.index.find(keys[begin + i], Index::place(hashes[i]));
      if (found[i] != Index::kNone) __builtin_prefetch(&shard.entries[found[i]], 1);
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (found[i] == Index::kNone) {
        missing.push_back(static_cast<std::uint32_t>(begin + i));
        continue;
      }
      Entry& entry = shards_[shard_of(hashes[i])].entries[found[i]];
      entry.stamp = now;
      if (entry.uses < kMostUses) ++entry.uses;
      slots[begin + i] = entry.slot;
    }
  }
}

void SlotIndex::add(std::size_t s, const std::int64_t* keys, const std::vector<std::uint32_t>& missing,
                    std::uint64_t now, std::uint64_t oldest, std::int64_t* slots, Placed& placed) {
  Shard& shard = shards_[s];
  std::uint32_t places[kGroup], numbers[kGroup], old_places[kGroup];
  for (std::size_t begin = 0; begin < missing.size(); begin += kGroup) {
    const std::size_t count = std::min(kGroup, missing.size() - begin);
    const std::size_t first_gone = placed.gone_keys.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = missing[begin + i], num_gone = placed.gone_keys.size();
      numbers[i] = enter(s, oldest, placed);
      if (placed.gone_keys.size() != num_gone) {
        old_places[num_gone - first_gone] = Index::place(mix64(placed.gone_keys.back()));
        shard.index.prefetch(old_places[num_gone - first_gone]);
      }
      places[i] = Index::place(mix64(keys[at]));
      if (shard.index.size() != 0) shard.index.prefetch(places[i]);
      Entry& entry = shard.entries[numbers[i]];
      entry = {keys[at], now, entry.slot, 0};
      slots[at] = entry.slot;
      placed.new_keys.push_back(keys[at]);
      placed.new_slots.push_back(entry.slot);
    }
    for (std::size_t i = first_gone; i < placed.gone_keys.size(); ++i) {
      shard.index.erase(placed.gone_keys[i], old_places[i - first_gone]);
    }
    for (std::size_t i = 0; i < count; ++i) shard.index.insert(keys[missing[begin + i]], places[i], numbers[i]);
  }
}

std::uint32_t SlotIndex::enter(std::size_t s, std::uint64_t oldest, Placed& placed) {
  Shard& shard = shards_[s];
  const auto number = static_cast<std::uint32_t>(shard.entries.size());
  if (number < room_) {
    shard.entries.push_back({0, 0, static_cast<std::uint32_t>(s * room_ + number), 0});
    return number;
  }
  for (std::size_t tries = kRounds * shard.entries.size(); tries != 0; --tries) {
    const auto here = static_cast<std::uint32_t>(shard.hand);
    Entry& passed = shard.entries[here];
    shard.hand = shard.hand + 1 == shard.entries.size() ? 0 : shard.hand + 1;
    if (passed.stamp >= oldest) continue;
    if (passed.uses != 0) {
      passed.uses /= 2;
      continue;
    }
    placed.gone_keys.push_back(passed.key);
    placed.gone_slots.push_back(passed.slot);
    return here;
  }
  const auto slot = static_cast<std::uint32_t>(shards_.size() * room_ + num_more_.fetch_add(1));
  shard.entries.push_back({0, 0, slot, 0});
  return number;
}

void SlotIndex::all(std::int64_t* keys, std::int64_t* slots) const {
  for (const Shard& shard : shards_) {
    for (const Entry& entry : shard.entries) {
      *keys++ = entry.key;
      *slots++ = entry.slot;
    }
  }
}

std::size_t SlotIndex::size() const {
  std::size_t size = 0;
  for (const Shard& shard : shards_) size += shard.entries.size();
  return size;
}

}  // namespace fleet
