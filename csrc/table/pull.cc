#include "table/group.h"
#include "threads/team.h"

namespace fleet {

void Table::pull(const std::int64_t* keys, std::size_t n, float* out, Missing missing) const {
  if (tier_ != nullptr) return pull_cold(keys, n, out, missing);
  const std::size_t num_parts = fine_parts_for(n, kWorthAThread);
  Team::shared().parallel_for(num_parts, [&](std::size_t part) {
    const auto [first, last] = slice_of(n, num_parts, part);
    pull_part(keys + first, last - first, out + first * format_.width, missing);
  });
}

void Table::pull_part(const std::int64_t* keys, std::size_t n, float* out, Missing missing) const {
  for_each_group(keys, n,
                 [&](std::size_t s, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
                   const Shard& shard = *shards_[s];
                   const std::lock_guard<std::mutex> lock(shard.mutex);
                   pull_group(shard, block, begin, end, keys + offset, out + offset * format_.width, missing);
                 });
}

void Table::pull_group(const Shard& shard, const Block& block, std::size_t begin, std::size_t end,
                       const std::int64_t* keys, float* out, Missing missing) const {
  std::uint32_t rows[Block::kSize];
  if (shard.index.size() != 0) {
    for (std::size_t i = begin; i < end; ++i) shard.index.prefetch(block.places[i]);
  }
  const std::size_t value_bytes = format_.width * format_.value_size();
  for (std::size_t i = begin; i < end; ++i) {
    const std::uint32_t row = shard.index.find(keys[block.order[i]], block.places[i]);
    rows[i - begin] = row;
    if (row == Index::kNone) continue;
    const std::byte* data = shard.rows.row(row);
    for (std::size_t at = 0; at < value_bytes; at += 64) __builtin_prefetch(data + at);
    __builtin_prefetch(data + value_bytes - 1);
  }
  for (std::size_t i = begin; i < end; ++i) {
    const std::size_t at = block.order[i];
    const std::uint32_t row = rows[i - begin];
    float* to = out + at * format_.width;
    if (row != Index::kNone) {
      format_.load(shard.rows.row(row), to);
    } else if (missing == Missing::kFirst && options_.entry.is_always()) {
      first_value(keys[at], to);
    } else {
      std::fill(to, to + format_.width, 0.0f);
    }
  }
}

}  // namespace fleet
