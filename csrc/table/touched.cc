// Which keys change or are deleted, noted for those who ask; and the rows of such keys.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "table/cold.h"
#include "table/group.h"

namespace fleet {

namespace {

// So many keys of a shard are noted whatever the size of it is; beyond them no more than half of what it has.
constexpr std::size_t kLeastNoted = 4096;

void put_mark(Marks& marks, std::int64_t key, const Slab& slab, std::uint32_t row, bool has_clicks) {
  const Mark& mark = slab.mark(row);
  marks.keys.push_back(key);
  marks.seen.push_back(mark.seen);
  marks.step.push_back(mark.step);
  if (!has_clicks) return;
  marks.shows.push_back(slab.clicks(row).shows);
  marks.clicks.push_back(slab.clicks(row).clicks);
}

}  // namespace

std::size_t Table::watch() {
  const std::lock_guard<std::mutex> one_at_a_time(watching_);
  std::size_t watcher = 0;
  {
    const std::lock_guard<std::mutex> lock(shards_[0]->mutex);
    const std::vector<Watch>& all = shards_[0]->watches;
    while (watcher < all.size() && all[watcher].is_on) ++watcher;
  }
  for (const auto& shard : shards_) {
    const std::lock_guard<std::mutex> lock(shard->mutex);
    if (watcher == shard->watches.size()) shard->watches.emplace_back();
    shard->watches[watcher].is_on = true;
  }
  return watcher;
}

void Table::unwatch(std::size_t watcher) {
  const std::lock_guard<std::mutex> one_at_a_time(watching_);
  for (const auto& shard : shards_) {
    const std::lock_guard<std::mutex> lock(shard->mutex);
    shard->watches.at(watcher) = Watch();
    while (!shard->watches.empty() && !shard->watches.back().is_on) shard->watches.pop_back();
  }
}

bool Table::touched(std::size_t watcher, bool forget, std::vector<std::int64_t>& keys) {
  bool is_known = true;
  for (const auto& shard : shards_) {
    const std::lock_guard<std::mutex> lock(shard->mutex);
    Watch& watch = shard->watches.at(watcher);
    is_known = is_known && !watch.is_all;
    watch.keys.for_each([&](std::int64_t key, std::uint32_t) { keys.push_back(key); });
    if (!forget) continue;
    const std::size_t size = watch.keys.size();
    watch.keys = Index();
    watch.keys.reserve(size);  // about as many come until it is asked again
    watch.is_all = false;
  }
  return is_known;
}

void Table::touch(std::size_t watcher, const std::int64_t* keys, std::size_t n) {
  for_each_group(keys, n,
                 [&](std::size_t s, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
                   Shard& shard = *shards_[s];
                   const std::lock_guard<std::mutex> lock(shard.mutex);
                   for (std::size_t i = begin; i < end; ++i) {
                     touch_for(shard, shard.watches.at(watcher), keys[offset + block.order[i]], block.places[i]);
                   }
                 });
}

void Table::touch_all(std::size_t watcher) {
  for (const auto& shard : shards_) {
    const std::lock_guard<std::mutex> lock(shard->mutex);
    shard->watches.at(watcher).is_all = true;
    shard->watches[watcher].keys = Index();
  }
}

void Table::touch_for(Shard& shard, Watch& watch, std::int64_t key, std::uint32_t place) {
  if (!watch.is_on || watch.is_all || watch.keys.find(key, place) != Index::kNone) return;
  const std::size_t size = watch.keys.size(), cold = shard.cold == nullptr ? 0 : shard.cold->num_cold;
  // What has grown so large is not worth its memory: who asks takes all.
  if (size >= kLeastNoted && size > (shard.index.size() + shard.waiting.size() + cold) / 2) {
    watch.is_all = true;
    watch.keys = Index();
    return;
  }
  // Doubled: a set is filled once and then read, where an index grows little and often.
  if (size >= 64 && (size & (size - 1)) == 0) watch.keys.reserve(2 * size);
  watch.keys.insert(key, place, 0);
}

void Table::touch_key(Shard& shard, std::int64_t key, std::uint32_t place) {
  for (Watch& watch : shard.watches) touch_for(shard, watch, key, place);
}

void Table::touch_shard(Shard& shard) {
  for (Watch& watch : shard.watches) {
    watch.is_all = watch.is_on;
    watch.keys = Index();
  }
}

Rows Table::dump_keys(const std::int64_t* keys, std::size_t n, std::vector<std::int64_t>& gone) const {
  if (tier_ != nullptr) {
    throw std::invalid_argument("table '" + options_.name + "' has rows on a disk: they are not copied by key");
  }
  const bool has_clicks = options_.entry.has_clicks();
  const std::size_t value_bytes = format_.width * format_.value_size(), state_width = format_.state_width;
  Rows out;
  out.values.reserve(n * value_bytes);
  out.state.reserve(n * state_width);
  for_each_group(keys, n,
                 [&](std::size_t s, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
                   const Shard& shard = *shards_[s];
                   const std::lock_guard<std::mutex> lock(shard.mutex);
                   std::uint32_t rows[Block::kSize];
                   find_ahead(shard, block, begin, end, keys + offset, rows);
                   for (std::size_t i = begin; i < end; ++i) {
                     const std::int64_t key = keys[offset + block.order[i]];
                     const std::uint32_t row = rows[i - begin];
                     if (row == Index::kNone) {
                       const std::uint32_t waiting = shard.waiting.find(key, block.places[i]);
                       if (waiting == Index::kNone) {
                         gone.push_back(key);
                       } else {
                         put_mark(out.waiting, key, shard.waiting_marks, waiting, has_clicks);
                       }
                       continue;
                     }
                     put_mark(out.marks, key, shard.rows, row, has_clicks);
                     const std::byte* data = shard.rows.row(row);
                     const std::size_t at = out.marks.keys.size() - 1;
                     out.values.resize((at + 1) * value_bytes);
                     out.state.resize((at + 1) * state_width);
                     std::memcpy(out.values.data() + at * value_bytes, data, value_bytes);
                     std::copy_n(format_.state(data), state_width, out.state.data() + at * state_width);
                   }
                 });
  return out;
}

}  // namespace fleet
