// Which keys change or are deleted, noted for those who ask; and the rows of such keys.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "table/cold_group.h"

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
  std::vector<std::int64_t> taken;
  for (const auto& shard : shards_) {
    {
      const std::lock_guard<std::mutex> lock(shard->mutex);
      Watch& watch = shard->watches.at(watcher);
      is_known = is_known && !watch.is_all;
      if (watch.may_repeat) put_each_once(watch);
      if (!forget) {
        keys.insert(keys.end(), watch.keys.begin(), watch.keys.end());
        continue;
      }
      taken.clear();
      taken.swap(watch.keys);  // about as many come until it is asked again, into the room of the shard before
      watch.rows.clear();
      watch.waiting.clear();
      watch.is_all = watch.may_repeat = false;
    }
    keys.insert(keys.end(), taken.begin(), taken.end());
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
    Watch& watch = shard->watches.at(watcher);
    watch = Watch{true, true, false, {}, {}, {}};
  }
}

void Table::touch_for(Shard& shard, Watch& watch, std::int64_t key, std::uint32_t place) {
  if (!watch.is_on || watch.is_all) return;
  if (const std::uint32_t row = shard.index.find(key, place); row != Index::kNone) {
    if (!watch.rows.add(row)) return;
  } else if (const std::uint32_t waiting = shard.waiting.find(key, place); waiting != Index::kNone) {
    if (!watch.waiting.add(waiting)) return;
  } else {
    watch.may_repeat = true;
  }
  put_key(shard, watch, key);
}

void Table::touch_gone(Shard& shard, std::int64_t key, std::uint32_t row, RowBits Watch::* where) {
  for (Watch& watch : shard.watches) {
    if (!watch.is_on || watch.is_all) continue;
    watch.may_repeat = true;  // it may come again
    if (!(watch.*where).remove(row)) put_key(shard, watch, key);
  }
}

void Table::put_key(Shard& shard, Watch& watch, std::int64_t key) {
  watch.keys.push_back(key);
  const auto is_too_long = [&](std::size_t size) {
    const std::size_t cold = shard.cold == nullptr ? 0 : shard.cold->num_cold;
    return size > kLeastNoted && size > (shard.index.size() + shard.waiting.size() + cold) / 2;
  };
  if (!is_too_long(watch.keys.size())) return;
  if (watch.may_repeat) {
    put_each_once(watch);
    if (!is_too_long(watch.keys.size() + watch.keys.size() / 4)) return;
  }
  // What has grown so large is not worth its memory: who asks takes all.
  watch = Watch{true, true, false, {}, {}, {}};
}

// Its rows stay noted, so what stands there once goes on standing there once.
void Table::put_each_once(Watch& watch) {
  std::sort(watch.keys.begin(), watch.keys.end());
  watch.keys.erase(std::unique(watch.keys.begin(), watch.keys.end()), watch.keys.end());
}

void Table::touch_shard(Shard& shard) {
  for (Watch& watch : shard.watches) watch = Watch{watch.is_on, watch.is_on, false, {}, {}, {}};
}

std::size_t Table::values_of(std::int64_t* keys, std::size_t n, float* rows, std::vector<std::int64_t>& gone) const {
  std::vector<std::uint8_t> has_row(n);
  const auto copy = [&](const Shard& shard, const Block& block, std::size_t begin, std::size_t end,
                        std::size_t offset) {
    std::uint32_t found[Block::kSize];
    find_ahead(shard, block, begin, end, keys + offset, found);
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t row = found[i - begin];
      if (row == Index::kNone) continue;
      const std::size_t at = offset + block.order[i];
      has_row[at] = 1;
      format_.load(shard.rows.row(row), rows + at * format_.width);
    }
  };
  if (tier_ != nullptr) {
    for_each_brought(keys, n, 0,
                     [&](std::size_t, const Shard& shard, const Block& block, std::size_t begin, std::size_t end,
                         std::size_t offset) { copy(shard, block, begin, end, offset); });
  } else {
    for_each_group(keys, n,
                   [&](std::size_t s, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
                     const std::lock_guard<std::mutex> lock(shards_[s]->mutex);
                     copy(*shards_[s], block, begin, end, offset);
                   });
  }
  std::size_t num = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (has_row[i] == 0) {
      gone.push_back(keys[i]);
      continue;
    }
    if (num != i) {
      keys[num] = keys[i];
      std::copy_n(rows + i * format_.width, format_.width, rows + num * format_.width);
    }
    ++num;
  }
  return num;
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
