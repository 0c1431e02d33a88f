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

void Table::assign(const std::int64_t* keys, std::size_t n, const float* values) {
  std::vector<float> limited(options_.has_max_norm ? format_.width : 0);
  const auto set = [&](Shard& shard, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t at = offset + block.order[i];
      std::uint32_t row = shard.index.find(keys[at], block.places[i]);
      if (row == Index::kNone) {
        row = make_row(shard, keys[at], block.places[i]);
        forget(shard, keys[at], block.places[i]);
      }
      const float* from = values + at * format_.width;
      if (options_.has_max_norm) {
        std::copy_n(from, format_.width, limited.data());
        limit_norm(limited.data());
        from = limited.data();
      }
      format_.store(from, shard.rows.row(row));
    }
  };
  if (tier_ != nullptr) {
    return for_each_brought(
        keys, n, 0,
        [&](std::size_t, Shard& shard, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
          set(shard, block, begin, end, offset);
          note_changed(shard, block, begin, end, keys + offset);
        });
  }
  for_each_group(keys, n,
                 [&](std::size_t s, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
                   const std::lock_guard<std::mutex> lock(shards_[s]->mutex);
                   set(*shards_[s], block, begin, end, offset);
                 });
}

}  // namespace fleet
