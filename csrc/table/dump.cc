// Rows on their way to and from files.
#include <algorithm>
#include <cstring>

#include "table/table.h"

namespace fleet {

namespace {

void add_mark(Marks& marks, std::int64_t key, const Slab& slab, std::uint32_t row, bool has_clicks) {
  const Mark& mark = slab.mark(row);
  marks.keys.push_back(key);
  marks.seen.push_back(mark.seen);
  marks.step.push_back(mark.step);
  if (has_clicks) {
    marks.shows.push_back(slab.clicks(row).shows);
    marks.clicks.push_back(slab.clicks(row).clicks);
  }
}

void set_mark(Slab& slab, std::uint32_t row, const RowsView::MarksView& marks, std::size_t i, bool has_clicks) {
  slab.mark(row) = {marks.seen[i], marks.step[i]};
  if (has_clicks) slab.clicks(row) = {marks.shows[i], marks.clicks[i]};
}

}  // namespace

Rows Table::dump(std::size_t first_shard, std::size_t last_shard) const {
  const bool has_clicks = options_.entry.has_clicks();
  const std::size_t value_bytes = format_.width * format_.value_size();
  Rows out;
  for (std::size_t s = first_shard; s < last_shard; ++s) {
    const Shard& shard = *shards_[s];
    const std::lock_guard<std::mutex> lock(shard.mutex);
    shard.index.for_each([&](std::int64_t key, std::uint32_t row) {
      add_mark(out.marks, key, shard.rows, row, has_clicks);
      const std::byte* data = shard.rows.row(row);
      out.values.insert(out.values.end(), data, data + value_bytes);
      out.state.insert(out.state.end(), format_.state(data), format_.state(data) + format_.state_width);
    });
    shard.waiting.for_each(
        [&](std::int64_t key, std::uint32_t row) { add_mark(out.waiting, key, shard.waiting_marks, row, has_clicks); });
  }
  return out;
}

std::size_t Table::restore(const RowsView& rows, std::uint32_t server, std::uint32_t num_servers) {
  const bool has_clicks = options_.entry.has_clicks();
  const std::size_t value_bytes = format_.width * format_.value_size();
  std::vector<float> limited(options_.has_max_norm ? format_.width : 0);
  std::size_t taken = 0;
  const auto count = [&](const RowsView::MarksView& marks) {
    std::vector<std::size_t> counts(kShards);
    for (std::size_t i = 0; i < marks.n; ++i) {
      if (server_of(marks.keys[i], num_servers) == server) ++counts[mix64(marks.keys[i]) % kShards];
    }
    return counts;
  };
  const std::vector<std::size_t> counts = count(rows.marks), waiting_counts = count(rows.waiting);
  for (std::size_t s = 0; s < kShards; ++s) {
    Shard& shard = *shards_[s];
    const std::lock_guard<std::mutex> lock(shard.mutex);
    shard.index.reserve(shard.index.size() + counts[s]);
    if (options_.entry.counts()) shard.waiting.reserve(shard.waiting.size() + waiting_counts[s]);
  }
  for (std::size_t i = 0; i < rows.marks.n; ++i) {
    const std::int64_t key = rows.marks.keys[i];
    if (server_of(key, num_servers) != server) continue;
    const std::uint64_t hash = mix64(key);
    Shard& shard = *shards_[hash % kShards];
    const std::lock_guard<std::mutex> lock(shard.mutex);
    std::uint32_t row = shard.index.find(key, Index::place(hash));
    if (row == Index::kNone) {
      row = make_row(shard, key, Index::place(hash));
      forget(shard, key, Index::place(hash));
    }
    std::byte* data = shard.rows.row(row);
    std::memcpy(data, rows.values + i * value_bytes, value_bytes);
    if (options_.has_max_norm) {  // the table that was saved may have had none
      format_.load(data, limited.data());
      limit_norm(limited.data());
      format_.store(limited.data(), data);
    }
    std::copy_n(rows.state + i * format_.state_width, format_.state_width, format_.state(data));
    set_mark(shard.rows, row, rows.marks, i, has_clicks);
    ++taken;
  }
  for (std::size_t i = 0; i < rows.waiting.n && options_.entry.counts(); ++i) {
    const std::int64_t key = rows.waiting.keys[i];
    if (server_of(key, num_servers) != server) continue;
    const std::uint64_t hash = mix64(key);
    Shard& shard = *shards_[hash % kShards];
    const std::lock_guard<std::mutex> lock(shard.mutex);
    if (shard.index.find(key, Index::place(hash)) != Index::kNone) continue;
    std::uint32_t row = shard.waiting.find(key, Index::place(hash));
    if (row == Index::kNone) {
      row = shard.waiting_marks.take();
      shard.waiting.insert(key, Index::place(hash), row);
    }
    set_mark(shard.waiting_marks, row, rows.waiting, i, has_clicks);
  }
  for (const auto& shard : shards_) {
    const std::lock_guard<std::mutex> lock(shard->mutex);
    evict(*shard);
  }
  return taken;
}

}  // namespace fleet
