// Pulls and pushes of a table with rows on the disk.
#include <algorithm>

#include "table/cold_group.h"

namespace fleet {

void Table::pull_cold(const std::int64_t* keys, std::size_t n, float* out, Missing missing) const {
  for_each_brought(
      keys, n, 0,
      [&](std::size_t, const Shard& shard, const Block& block, std::size_t begin, std::size_t end, std::size_t first) {
        pull_group(shard, block, begin, end, keys + first, out + first * format_.width, missing);
      });
}

void Table::push_cold(const Push& push, Pushed& result) {
  refuse_if_full();
  std::size_t most_runs = 0;
  for_each_brought(
      push.keys, push.n, push.skip_shards,
      [&](std::size_t, Shard& shard, const Block& block, std::size_t begin, std::size_t end, std::size_t first) {
        push_group(shard, block, begin, end, push, first, result);
        note_changed(shard, block, begin, end, push.keys + first);
        most_runs = std::max(most_runs, shard.cold->runs.size());
      });
  tier_->wait_if_behind(most_runs);
}

void Table::note_changed(Shard& shard, const Block& block, std::size_t begin, std::size_t end,
                         const std::int64_t* keys) const {
  for (std::size_t i = begin; i < end; ++i) {
    const std::uint32_t row = shard.index.find(keys[block.order[i]], block.places[i]);
    if (row != Index::kNone) shard.cold->flag(row) |= ColdShard::kChanged;
  }
}

void Table::refuse_if_full() const {
  if (tier_ == nullptr || !tier_->is_failing()) return;
  const std::size_t s = tier_->failure().first;
  {
    Shard& shard = *shards_[s];
    const std::lock_guard<std::mutex> lock(shard.mutex);
    tier_->recover();
    spill(s, shard);  // there may be room again
  }
  if (tier_->is_failing()) throw tier_->failure().second;
}

TierCounts Table::tier_counts() const {
  TierCounts counts;
  for (const auto& shard : shards_) {
    const std::lock_guard<std::mutex> lock(shard->mutex);
    counts.hot_rows += shard->index.size();
    if (tier_ == nullptr) continue;
    counts.cold_rows += shard->cold->num_cold;
    counts.index_bytes += shard->cold->index_bytes;
    counts.files += shard->cold->runs.size();
    for (const auto& run : shard->cold->runs) counts.disk_bytes += run->file_bytes();
  }
  if (tier_ == nullptr) return counts;
  counts.reads = tier_->reads;
  counts.brought_rows = tier_->brought_rows;
  counts.spilled_rows = tier_->spilled_rows;
  counts.written_rows = tier_->written_rows;
  counts.merged_rows = tier_->merged_rows;
  return counts;
}

}  // namespace fleet
