// Values that come from elsewhere: a worker's copy of what servers hold.
#include "table/cold_group.h"

namespace fleet {

void Table::find(const std::int64_t* keys, std::size_t n, std::uint8_t* found) const {
  const auto look = [&](const Shard& shard, const Block& block, std::size_t begin, std::size_t end,
                        std::size_t offset) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t at = offset + block.order[i];
      found[at] = shard.index.find(keys[at], block.places[i]) != Index::kNone;
    }
  };
  if (tier_ != nullptr) {
    return for_each_brought(keys, n, 0,
                            [&](std::size_t, const Shard& shard, const Block& block, std::size_t begin, std::size_t end,
                                std::size_t offset) { look(shard, block, begin, end, offset); });
  }
  for_each_group(keys, n,
                 [&](std::size_t s, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
                   const std::lock_guard<std::mutex> lock(shards_[s]->mutex);
                   look(*shards_[s], block, begin, end, offset);
                 });
}

std::size_t Table::assign(const std::int64_t* keys, std::size_t n, const float* values, std::uint32_t step,
                          std::uint64_t skip_shards) {
  refuse_if_full();
  std::vector<float> kept(format_.width);
  std::size_t evicted = 0;
  const auto set = [&](Shard& shard, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t at = offset + block.order[i];
      std::uint32_t row = shard.index.find(keys[at], block.places[i]);
      if (row == Index::kNone) {
        row = add_row(shard, keys[at], block.places[i]);
        forget(shard, keys[at], block.places[i]);
      }
      touch_row(shard, keys[at], row);
      std::copy_n(values + at * format_.width, format_.width, kept.data());
      if (options_.has_bounds) clamp(kept.data());
      format_.round(kept.data());
      limit_norm(kept.data());
      std::byte* data = shard.rows.row(row);
      format_.store(kept.data(), data);
      options_.rule->start(format_.state(data), format_.width);
      shard.rows.mark(row) = {0, step};
      if (options_.entry.has_clicks()) shard.rows.clicks(row) = {};
    }
  };
  if (tier_ != nullptr) {
    std::size_t most_runs = 0;
    for_each_brought(
        keys, n, skip_shards,
        [&](std::size_t, Shard& shard, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
          set(shard, block, begin, end, offset);
          note_changed(shard, block, begin, end, keys + offset);
          most_runs = std::max(most_runs, shard.cold->runs.size());
        });
    tier_->wait_if_behind(most_runs);
    return 0;
  }
  for_each_group(keys, n,
                 [&](std::size_t s, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
                   if ((skip_shards >> s) & 1u) return;
                   const std::lock_guard<std::mutex> lock(shards_[s]->mutex);
                   set(*shards_[s], block, begin, end, offset);
                   evicted += evict(*shards_[s]);
                 });
  return evicted;
}

}  // namespace fleet
