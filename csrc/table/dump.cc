// Rows on their way to files.
#include <algorithm>
#include <cstring>

#include "keys/array.h"
#include "table/cold.h"

namespace fleet {

namespace {

// visit(key, row) for every key of an index; ask(row) some rows before, to fetch their memory.
template <class Ask, class Visit>
void for_each_ahead(const Index& index, Ask&& ask, Visit&& visit) {
  constexpr std::size_t kAhead = 32;
  std::pair<std::int64_t, std::uint32_t> asked[kAhead];
  std::size_t n = 0;
  index.for_each([&](std::int64_t key, std::uint32_t row) {
    ask(row);
    auto& [old_key, old_row] = asked[n % kAhead];
    if (n >= kAhead) visit(old_key, old_row);
    asked[n++ % kAhead] = {key, row};
  });
  for (std::size_t i = n - std::min(n, kAhead); i < n; ++i) visit(asked[i % kAhead].first, asked[i % kAhead].second);
}

template <class T>
void reserve(Items<T>& items, std::size_t n) {
  items.reserve(n);
  advise_large_pages(items.data(), n * sizeof(T));
}

void reserve(Marks& marks, std::size_t n, bool has_clicks) {
  reserve(marks.keys, n);
  reserve(marks.seen, n);
  reserve(marks.step, n);
  if (!has_clicks) return;
  reserve(marks.shows, n);
  reserve(marks.clicks, n);
}

// Room for n more; where they begin.
std::size_t grow(Marks& marks, std::size_t n, bool has_clicks) {
  const std::size_t begin = marks.keys.size();
  marks.keys.resize(begin + n);
  marks.seen.resize(begin + n);
  marks.step.resize(begin + n);
  if (has_clicks) {
    marks.shows.resize(begin + n);
    marks.clicks.resize(begin + n);
  }
  return begin;
}

void put_mark(Marks& marks, std::size_t at, std::int64_t key, const Slab& slab, std::uint32_t row, bool has_clicks) {
  const Mark& mark = slab.mark(row);
  marks.keys[at] = key;
  marks.seen[at] = mark.seen;
  marks.step[at] = mark.step;
  if (has_clicks) {
    marks.shows[at] = slab.clicks(row).shows;
    marks.clicks[at] = slab.clicks(row).clicks;
  }
}

}  // namespace

Rows Table::dump(std::size_t first_shard, std::size_t last_shard) const {
  const bool has_clicks = options_.entry.has_clicks();
  const std::size_t value_bytes = format_.width * format_.value_size(), state_width = format_.state_width;
  std::size_t size = 0, waiting_size = 0;
  for (std::size_t s = first_shard; s < last_shard; ++s) {
    const std::lock_guard<std::mutex> lock(shards_[s]->mutex);
    size += shards_[s]->index.size() + (tier_ == nullptr ? 0 : shards_[s]->cold->num_cold);
    waiting_size += shards_[s]->waiting.size();
  }
  Rows out;
  reserve(out.marks, size, has_clicks);
  reserve(out.waiting, waiting_size, has_clicks);
  reserve(out.values, size * value_bytes);
  reserve(out.state, size * state_width);
  for (std::size_t s = first_shard; s < last_shard; ++s) {
    const Shard& shard = *shards_[s];
    const std::lock_guard<std::mutex> lock(shard.mutex);
    std::size_t at = grow(out.marks, shard.index.size(), has_clicks);
    out.values.resize(out.marks.keys.size() * value_bytes);
    out.state.resize(out.marks.keys.size() * state_width);
    for_each_ahead(
        shard.index,
        [&](std::uint32_t row) {
          const std::byte* data = shard.rows.row(row);
          for (std::size_t b = 0; b < format_.row_bytes(); b += 64) __builtin_prefetch(data + b);
          __builtin_prefetch(&shard.rows.mark(row));
        },
        [&](std::int64_t key, std::uint32_t row) {
          const std::byte* data = shard.rows.row(row);
          put_mark(out.marks, at, key, shard.rows, row, has_clicks);
          std::memcpy(out.values.data() + at * value_bytes, data, value_bytes);
          std::copy_n(format_.state(data), state_width, out.state.data() + at * state_width);
          ++at;
        });
    at = grow(out.waiting, shard.waiting.size(), has_clicks);
    for_each_ahead(
        shard.waiting, [&](std::uint32_t row) { __builtin_prefetch(&shard.waiting_marks.mark(row)); },
        [&](std::int64_t key, std::uint32_t row) {
          put_mark(out.waiting, at++, key, shard.waiting_marks, row, has_clicks);
        });
    if (tier_ != nullptr) dump_cold(out, shard, out.marks.keys.size());
  }
  return out;
}

std::uint32_t Table::newest_step() const {
  std::uint32_t newest = 0;
  const auto look = [&](const Index& index, const Slab& slab) {
    for_each_ahead(
        index, [&](std::uint32_t row) { __builtin_prefetch(&slab.mark(row)); },
        [&](std::int64_t, std::uint32_t row) { newest = std::max(newest, slab.mark(row).step); });
  };
  for (const auto& shard : shards_) {
    const std::lock_guard<std::mutex> lock(shard->mutex);
    look(shard->index, shard->rows);
    look(shard->waiting, shard->waiting_marks);
    if (tier_ == nullptr) continue;
    for (const auto& run : shard->cold->runs) newest = std::max(newest, run->newest_step());
  }
  return newest;
}

}  // namespace fleet
