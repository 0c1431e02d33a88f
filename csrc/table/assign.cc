// Values that come from elsewhere: a worker's copy of what servers hold.
#include "table/group.h"

namespace fleet {

void Table::find(const std::int64_t* keys, std::size_t n, std::uint8_t* found) const {
  for_each_group(keys, n,
                 [&](std::size_t s, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
                   const Shard& shard = *shards_[s];
                   const std::lock_guard<std::mutex> lock(shard.mutex);
                   for (std::size_t i = begin; i < end; ++i) {
                     const std::size_t at = offset + block.order[i];
                     found[at] = shard.index.find(keys[at], block.places[i]) != Index::kNone;
                   }
                 });
}

void Table::assign(const std::int64_t* keys, std::size_t n, const float* values) {
  std::vector<float> limited(options_.has_max_norm ? format_.width : 0);
  for_each_group(keys, n,
                 [&](std::size_t s, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
                   Shard& shard = *shards_[s];
                   const std::lock_guard<std::mutex> lock(shard.mutex);
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
                 });
}

}  // namespace fleet
