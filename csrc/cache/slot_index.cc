#include "cache/slot_index.h"

#include <algorithm>
#include <array>
#include <utility>

#include "keys/hash.h"
#include "threads/team.h"

namespace fleet {

namespace {

void append(std::vector<std::int64_t>& to, const std::vector<std::int64_t>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

SlotIndex::SlotIndex(std::size_t capacity)
    : room_(capacity < kWorthShards ? capacity : (capacity + kShards - 1) / kShards),
      shards_(capacity < kWorthShards ? 1 : kShards) {}

SlotIndex::Placed SlotIndex::place(const std::int64_t* keys, std::size_t n, std::uint64_t now, std::uint64_t oldest,
                                   std::int64_t* slots) {
  const std::size_t num_shards = shards_.size();
  std::vector<std::uint32_t> order(n), begins(num_shards + 1, 0);
  if (num_shards == 1) {
    for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<std::uint32_t>(i);
    begins[1] = static_cast<std::uint32_t>(n);
  } else {
    // Each part counts its keys by shard, then knows where they go.
    const std::size_t num_parts = parts_for(n, 4096);
    std::vector<std::array<std::uint32_t, kShards>> next(num_parts);
    std::vector<std::uint8_t> shard_of(n);
    Team::shared().parallel_for(num_parts, [&](std::size_t part) {
      const auto [first, last] = slice_of(n, num_parts, part);
      next[part].fill(0);
      for (std::size_t i = first; i < last; ++i) {
        shard_of[i] = static_cast<std::uint8_t>(mix64(keys[i]) % kShards);
        ++next[part][shard_of[i]];
      }
    });
    std::uint32_t begin = 0;
    for (std::size_t s = 0; s < num_shards; ++s) {
      begins[s] = begin;
      for (auto& part : next) begin += std::exchange(part[s], begin);
    }
    begins[num_shards] = begin;
    Team::shared().parallel_for(num_parts, [&](std::size_t part) {
      const auto [first, last] = slice_of(n, num_parts, part);
      for (std::size_t i = first; i < last; ++i) order[next[part][shard_of[i]]++] = static_cast<std::uint32_t>(i);
    });
  }
  std::vector<Placed> parts(num_shards);
  Team::shared().parallel_for(num_shards, [&](std::size_t s) {
    place_shard(s, keys, order.data() + begins[s], begins[s + 1] - begins[s], now, oldest, slots, parts[s]);
  });
  Placed all = std::move(parts[0]);
  for (std::size_t s = 1; s < num_shards; ++s) {
    append(all.new_keys, parts[s].new_keys);
    append(all.new_slots, parts[s].new_slots);
    append(all.gone_keys, parts[s].gone_keys);
    append(all.gone_slots, parts[s].gone_slots);
  }
  return all;
}

void SlotIndex::place_shard(std::size_t s, const std::int64_t* keys, const std::uint32_t* order, std::size_t n,
                            std::uint64_t now, std::uint64_t oldest, std::int64_t* slots, Placed& placed) {
  constexpr std::size_t kGroup = 256;
  Shard& shard = shards_[s];
  std::uint32_t places[kGroup], found[kGroup];
  std::vector<std::uint32_t> missing;  // positions of keys that are not there
  missing.reserve(n);
  for (std::size_t begin = 0; begin < n; begin += kGroup) {
    const std::size_t count = std::min(kGroup, n - begin);
    for (std::size_t i = 0; i < count; ++i) {
      places[i] = Index::place(mix64(keys[order[begin + i]]));
      if (shard.index.size() != 0) shard.index.prefetch(places[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      found[i] = shard.index.find(keys[order[begin + i]], places[i]);
      if (found[i] != Index::kNone) __builtin_prefetch(&shard.entries[found[i]], 1);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = order[begin + i];
      if (found[i] == Index::kNone) {
        missing.push_back(static_cast<std::uint32_t>(at));
        continue;
      }
      Entry& entry = shard.entries[found[i]];
      entry.stamp = now;
      if (entry.uses < kMostUses) ++entry.uses;
      slots[at] = entry.slot;
    }
  }
  // Only now: a key of this call must not lose its slot to another.
  std::uint32_t old_places[kGroup];
  for (std::size_t begin = 0; begin < missing.size(); begin += kGroup) {
    const std::size_t count = std::min(kGroup, missing.size() - begin);
    const std::size_t first_gone = placed.gone_keys.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = missing[begin + i];
      const std::size_t num_gone = placed.gone_keys.size();
      const std::uint32_t number = enter(s, std::min(oldest, now), placed);
      if (placed.gone_keys.size() != num_gone) {
        old_places[num_gone - first_gone] = Index::place(mix64(placed.gone_keys.back()));
        shard.index.prefetch(old_places[num_gone - first_gone]);
      }
      found[i] = number;
      places[i] = Index::place(mix64(keys[at]));
      if (shard.index.size() != 0) shard.index.prefetch(places[i]);
      Entry& entry = shard.entries[number];
      entry = {keys[at], now, entry.slot, 0};
      slots[at] = entry.slot;
      placed.new_keys.push_back(keys[at]);
      placed.new_slots.push_back(entry.slot);
    }
    for (std::size_t i = first_gone; i < placed.gone_keys.size(); ++i) {
      shard.index.erase(placed.gone_keys[i], old_places[i - first_gone]);
    }
    for (std::size_t i = 0; i < count; ++i) shard.index.insert(keys[missing[begin + i]], places[i], found[i]);
  }
}

std::uint32_t SlotIndex::enter(std::size_t s, std::uint64_t oldest, Placed& placed) {
  Shard& shard = shards_[s];
  auto number = static_cast<std::uint32_t>(shard.entries.size());
  if (number < room_) {
    shard.entries.push_back({0, 0, static_cast<std::uint32_t>(s * room_ + number), 0});
    return number;
  }
  for (std::size_t tries = kRounds * shard.entries.size(); tries != 0; --tries) {
    Entry& passed = shard.entries[shard.hand];
    const auto here = static_cast<std::uint32_t>(shard.hand);
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
