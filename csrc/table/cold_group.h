// The keys of a request grouped by shard, with their rows in memory.
#pragma once

#include <algorithm>

#include "table/cold.h"
#include "table/group.h"

namespace fleet {

// work(shard number, shard, block, begin, end, offset of the block), each shard locked; rows that are too many leave
// memory afterwards.
template <class Work>
void Table::for_each_brought(const std::int64_t* keys, std::size_t n, std::uint64_t skip_shards, Work&& work) const {
  std::uint64_t epochs[kShards] = {};
  for (std::size_t first = 0; first < n; first += Block::kSize) {
    const std::size_t count = std::min(Block::kSize, n - first);
    bring(keys + first, count, skip_shards, epochs);
    for_each_group(keys + first, count,
                   [&](std::size_t s, const Block& block, std::size_t begin, std::size_t end, std::size_t) {
                     if ((skip_shards >> s) & 1u) return;
                     Shard& shard = *shards_[s];
                     const std::lock_guard<std::mutex> lock(shard.mutex);
                     settle(shard, block, begin, end, keys + first, epochs[s]);
                     work(s, shard, block, begin, end, first);
                     spill(s, shard);
                   });
  }
}

}  // namespace fleet
