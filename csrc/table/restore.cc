// Rows on their way from files.
#include <algorithm>
#include <array>
#include <cstring>

#include "table/group.h"

namespace fleet {

namespace {

void set_mark(Slab& slab, std::uint32_t row, const RowsView::MarksView& marks, std::size_t i, bool has_clicks) {
  slab.mark(row) = {marks.seen[i], marks.step[i]};
  if (has_clicks) slab.clicks(row) = {marks.shows[i], marks.clicks[i]};
}

// Which keys a server takes.
struct Own {
  std::uint32_t server, num_servers;

  bool operator()(std::int64_t key) const { return num_servers == 1 || server_of(key, num_servers) == server; }
};

std::array<std::size_t, Table::kShards> count_shards(const RowsView::MarksView& marks, Own is_own) {
  std::array<std::size_t, Table::kShards> counts{};
  for (std::size_t i = 0; i < marks.n; ++i) {
    if (is_own(marks.keys[i])) ++counts[mix64(marks.keys[i]) % Table::kShards];
  }
  return counts;
}

}  // namespace

std::size_t Table::restore(const RowsView& rows, std::uint32_t server, std::uint32_t num_servers) {
  return tier_ == nullptr ? restore_memory(rows, server, num_servers) : restore_cold(rows, server, num_servers);
}

std::size_t Table::restore_memory(const RowsView& rows, std::uint32_t server, std::uint32_t num_servers) {
  const Own is_own{server, num_servers};
  const RowsView::MarksView none{};
  const RowsView::MarksView& waiting = options_.entry.counts() ? rows.waiting : none;
  const auto counts = count_shards(rows.marks, is_own), waiting_counts = count_shards(waiting, is_own);
  for (std::size_t s = 0; s < kShards; ++s) {
    if (counts[s] == 0 && waiting_counts[s] == 0) continue;
    Shard& shard = *shards_[s];
    const std::lock_guard<std::mutex> lock(shard.mutex);
    shard.index.reserve(shard.index.size() + counts[s]);
    shard.waiting.reserve(shard.waiting.size() + waiting_counts[s]);
  }
  // The keys of a block that are taken, and where they stand.
  static thread_local std::int64_t keys[Block::kSize];
  static thread_local std::size_t from[Block::kSize];
  std::size_t taken = 0;
  const auto in_blocks = [&](const RowsView::MarksView& marks, auto&& work) {
    for (std::size_t i = 0; i < marks.n;) {
      std::size_t n = 0;
      for (; i < marks.n && n < Block::kSize; ++i) {
        if (!is_own(marks.keys[i])) continue;
        keys[n] = marks.keys[i];
        from[n++] = i;
      }
      for_each_group(keys, n, [&](std::size_t s, const Block& block, std::size_t begin, std::size_t end, std::size_t) {
        Shard& shard = *shards_[s];
        const std::lock_guard<std::mutex> lock(shard.mutex);
        work(shard, block, begin, end);
      });
      taken += n;
    }
  };
  in_blocks(rows.marks, [&](Shard& shard, const Block& block, std::size_t begin, std::size_t end) {
    restore_group(shard, block, begin, end, rows, from);
  });
  const std::size_t num_rows = taken;
  in_blocks(waiting, [&](Shard& shard, const Block& block, std::size_t begin, std::size_t end) {
    restore_waiting(shard, block, begin, end, waiting, from);
  });
  for (std::size_t s = 0; s < kShards; ++s) {
    if (counts[s] == 0 && waiting_counts[s] == 0) continue;
    Shard& shard = *shards_[s];
    const std::lock_guard<std::mutex> lock(shard.mutex);
    evict(shard);
    if (tier_ != nullptr) continue;  // rows come in small portions, and leave again
    shard.index.fit_if_large();      // room was made also for rows that were there
    shard.waiting.fit_if_large();
  }
  return num_rows;
}

void Table::restore_group(Shard& shard, const Block& block, std::size_t begin, std::size_t end, const RowsView& rows,
                          const std::size_t* from) {
  const bool has_clicks = options_.entry.has_clicks();
  const std::size_t value_bytes = format_.width * format_.value_size(), state_width = format_.state_width;
  std::vector<float> limited(options_.has_max_norm ? format_.width : 0);
  if (shard.index.bytes() != 0) {
    for (std::size_t i = begin; i < end; ++i) shard.index.prefetch(block.places[i]);
  }
  for (std::size_t i = begin; i < end; ++i) {
    const std::size_t at = from[block.order[i]];
    const std::int64_t key = rows.marks.keys[at];
    std::uint32_t row = shard.index.find(key, block.places[i]);
    if (row == Index::kNone) {
      row = add_row(shard, key, block.places[i]);
      if (shard.waiting.size() != 0) forget(shard, key, block.places[i]);
    }
    touch_row(shard, key, row);
    std::byte* data = shard.rows.row(row);
    std::memcpy(data, rows.values + at * value_bytes, value_bytes);
    if (options_.has_max_norm) {  // the table that was saved may have had none
      format_.load(data, limited.data());
      limit_norm(limited.data());
      format_.store(limited.data(), data);
    }
    std::copy_n(rows.state + at * state_width, state_width, format_.state(data));
    set_mark(shard.rows, row, rows.marks, at, has_clicks);
  }
}

void Table::restore_waiting(Shard& shard, const Block& block, std::size_t begin, std::size_t end,
                            const RowsView::MarksView& waiting, const std::size_t* from) {
  for (std::size_t i = begin; i < end; ++i) {
    const std::size_t at = from[block.order[i]];
    const std::int64_t key = waiting.keys[at];
    if (shard.index.find(key, block.places[i]) != Index::kNone) continue;
    std::uint32_t row = shard.waiting.find(key, block.places[i]);
    if (row == Index::kNone) {
      row = shard.waiting_marks.take();
      shard.waiting.insert(key, block.places[i], row);
    }
    touch_waiting(shard, key, row);
    set_mark(shard.waiting_marks, row, waiting, at, options_.entry.has_clicks());
  }
}

}  // namespace fleet
