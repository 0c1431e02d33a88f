// Rows with their state and marks, on their way to a cache that trains them elsewhere, and back.
#include <cstring>

#include "table/group.h"
#include "threads/team.h"

namespace fleet {

void Table::find_ahead(const Shard& shard, const Block& block, std::size_t begin, std::size_t end,
                       const std::int64_t* keys, std::uint32_t* rows) const {
  if (shard.index.size() != 0) {
    for (std::size_t i = begin; i < end; ++i) shard.index.prefetch(block.places[i]);
  }
  for (std::size_t i = begin; i < end; ++i) {
    const std::uint32_t row = shard.index.find(keys[block.order[i]], block.places[i]);
    *rows++ = row;
    if (row == Index::kNone) continue;
    const std::byte* data = shard.rows.row(row);
    for (std::size_t b = 0; b < format_.row_bytes(); b += 64) __builtin_prefetch(data + b);
    __builtin_prefetch(&shard.rows.mark(row));
  }
}

void Table::read(const std::int64_t* keys, std::size_t n, std::uint32_t* records) const {
  const std::size_t words = record_words(), width = format_.width, state_width = format_.state_width;
  const auto copy = [&](const Shard& shard, const Block& block, std::size_t begin, std::size_t end,
                        std::size_t offset) {
    std::uint32_t rows[Block::kSize];
    find_ahead(shard, block, begin, end, keys + offset, rows);
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t at = offset + block.order[i];
      const std::uint32_t row = rows[i - begin];
      std::uint32_t* to = records + at * words;
      auto* values = reinterpret_cast<float*>(to);
      Mark mark{};
      if (row != Index::kNone) {
        const std::byte* data = shard.rows.row(row);
        std::memcpy(values, data, width * sizeof(float));
        std::memcpy(values + width, format_.state(data), state_width * sizeof(float));
        mark = shard.rows.mark(row);
      } else {
        first_value(keys[at], values);
        options_.rule->start(values + width, width);
      }
      to[words - 3] = mark.seen;
      to[words - 2] = mark.step;
      to[words - 1] = row != Index::kNone;
    }
  };
  const std::size_t num_parts = fine_parts_for(n, kWorthAThread);
  Team::shared().parallel_for(num_parts, [&](std::size_t part) {
    const auto [first, last] = slice_of(n, num_parts, part);
    for_each_group(
        keys + first, last - first,
        [&, at = first](std::size_t s, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
          const std::lock_guard<std::mutex> lock(shards_[s]->mutex);
          copy(*shards_[s], block, begin, end, at + offset);
        });
  });
}

void Table::write(const std::int64_t* keys, std::size_t n, const std::uint32_t* records) {
  const std::size_t words = record_words(), width = format_.width, state_width = format_.state_width;
  const auto put = [&](Shard& shard, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
    std::uint32_t rows[Block::kSize];
    find_ahead(shard, block, begin, end, keys + offset, rows);
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t at = offset + block.order[i];
      const std::uint32_t* from = records + at * words;
      if (from[words - 1] == 0) continue;
      std::uint32_t row = rows[i - begin];
      if (row == Index::kNone) row = make_row(shard, keys[at], block.places[i]);
      touch_row(shard, keys[at], row);
      std::byte* data = shard.rows.row(row);
      std::memcpy(data, from, width * sizeof(float));
      std::memcpy(format_.state(data), from + width, state_width * sizeof(float));
      shard.rows.mark(row) = {from[words - 3], from[words - 2]};
    }
  };
  const std::size_t num_parts = fine_parts_for(n, kWorthAThread);
  Team::shared().parallel_for(num_parts, [&](std::size_t part) {
    const auto [first, last] = slice_of(n, num_parts, part);
    for_each_group(
        keys + first, last - first,
        [&, at = first](std::size_t s, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
          const std::lock_guard<std::mutex> lock(shards_[s]->mutex);
          put(*shards_[s], block, begin, end, at + offset);
        });
  });
}

}  // namespace fleet
