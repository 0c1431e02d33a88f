#include "serve/tables.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

namespace fleet::serve {

// A side that cannot change as long as this lives.
class Tables::Reading {
 public:
  explicit Reading(const Tables& tables) : tables_(tables) {
    // The writer leads readers away, then waits until nobody reads: who has counted himself and still sees the side in
    // use was counted before the writer looks.
    while (true) {
      side = tables.side_.load();
      tables.readers_[side].count.fetch_add(1);
      if (tables.side_.load() == side) return;
      tables.readers_[side].count.fetch_sub(1);
    }
  }
  ~Reading() { tables_.readers_[side].count.fetch_sub(1); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  int side;

 private:
  const Tables& tables_;
};

Tables::Tables(std::vector<std::shared_ptr<const Base>> bases, std::vector<std::int64_t> numbers)
    : bases_(std::move(bases)), num_shards_(numbers.size()) {
  for (const auto& base : bases_) changes_.emplace_back(base->width());
  numbers_[0] = numbers_[1] = std::move(numbers);
}

std::vector<std::int64_t> Tables::lookup(std::vector<Wanted>& wanted) const {
  const Reading reading(*this);
  for (Wanted& one : wanted) look_up(reading.side, one);
  return numbers_[reading.side];
}

// Memory is asked for a group of keys at a time: first all buckets, then all keys of those, then all rows.
void Tables::look_up(int side, Wanted& wanted) const {
  constexpr std::size_t kGroup = 256;
  const Base& base = *bases_[wanted.table];
  const Changes& changes = changes_[wanted.table];
  const Changes::View& view = changes.view(side);
  const bool has_changes = view.index.size() != 0;
  const std::size_t width = base.width();
  std::uint32_t places[kGroup], changed[kGroup], rows[kGroup];
  for (std::size_t begin = 0; begin < wanted.n; begin += kGroup) {
    const std::size_t count = std::min(kGroup, wanted.n - begin);
    const std::int64_t* keys = wanted.keys + begin;
    for (std::size_t i = 0; i < count; ++i) {
      places[i] = Index::place(mix64(keys[i]));
      if (has_changes) view.index.prefetch(places[i]);
      base.prefetch_bucket(base.bucket(places[i]));
    }
    for (std::size_t i = 0; i < count; ++i) {
      changed[i] = has_changes ? view.index.find(keys[i], places[i]) : Index::kNone;
      if (changed[i] == Index::kNone) {
        base.prefetch_keys(base.bucket(places[i]));
      } else if (changed[i] != Changes::kGone) {
        const float* row = changes.row(view, changed[i]);
        for (std::size_t at = 0; at < width; at += 16) __builtin_prefetch(row + at);
        __builtin_prefetch(row + width - 1);
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      rows[i] = changed[i] == Index::kNone ? base.find(keys[i], base.bucket(places[i])) : Base::kNone;
      if (rows[i] != Base::kNone) base.prefetch_row(rows[i]);
    }
    float* out = wanted.rows + begin * width;
    for (std::size_t i = 0; i < count; ++i, out += width) {
      if (rows[i] != Base::kNone) {
        base.read(rows[i], out);
      } else if (changed[i] != Index::kNone && changed[i] != Changes::kGone) {
        std::memcpy(out, changes.row(view, changed[i]), width * sizeof(float));
      } else {
        std::fill_n(out, width, 0.0f);
        wanted.missing.push_back(static_cast<std::int64_t>(begin + i));
      }
    }
  }
}

void Tables::lead(int side, std::size_t shard, std::int64_t number, const std::vector<Changed>& changed) {
  for (const Changed& one : changed) changes_[one.table].lead(side);
  numbers_[side][shard] = number;
}

void Tables::apply(std::size_t shard, std::int64_t number, const std::vector<Changed>& changed) {
  const std::lock_guard<std::mutex> lock(writing_);
  if (is_broken_) throw std::logic_error("a batch failed half-way before; take the base again");
  is_broken_ = true;
  for (const Changed& one : changed) changes_[one.table].write(one.keys, one.n, one.rows, one.gone, one.num_gone);
  const int before = side_.load();
  lead(1 - before, shard, number, changed);
  side_.store(1 - before);
  // A reader stays for one request, which is microseconds; nobody new comes to this side.
  while (readers_[before].count.load() != 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
  lead(before, shard, number, changed);
  for (const Changed& one : changed) changes_[one.table].give_back();
  is_broken_ = false;
}

std::vector<std::int64_t> Tables::numbers() const {
  const Reading reading(*this);
  return numbers_[reading.side];
}

std::size_t Tables::num_changed(std::size_t table) const {
  const std::lock_guard<std::mutex> lock(writing_);
  return changes_[table].size();
}

std::size_t Tables::changed_bytes() const {
  const std::lock_guard<std::mutex> lock(writing_);
  std::size_t bytes = 0;
  for (const Changes& one : changes_) bytes += one.bytes();
  return bytes;
}

}  // namespace fleet::serve
