#include "cache/row_cache.h"

#include <algorithm>
#include <limits>

#include "keys/hash.h"
#include "table/found.h"

namespace fleet {

RowCache::RowCache(std::size_t width, std::size_t capacity, std::uint32_t staleness)
    : width_(width), capacity_(capacity), staleness_(staleness) {}

template <class Work>
void RowCache::for_each(const std::int64_t* keys, std::size_t n, Work&& work) {
  const auto ask = [&](std::uint32_t number) {
    __builtin_prefetch(&entries_[number]);
    __builtin_prefetch(row(number));
  };
  for_each_found(index_, keys, n, ask, work);
}

RowCache::Taken RowCache::take(const std::int64_t* keys, std::size_t n, std::uint32_t now, float* out) {
  Taken taken{{}, std::numeric_limits<std::uint64_t>::max()};
  for_each(keys, n, [&](std::size_t i, std::uint32_t number, std::uint32_t) {
    if (number == Index::kNone) {
      ++counts_.misses;
      taken.missing.push_back(static_cast<std::int64_t>(i));
      return;
    }
    Entry& entry = entries_[number];
    if (entry.uses < kMostUses) ++entry.uses;
    const std::uint32_t age = now - entry.step;
    if (staleness_ == 0 || age > staleness_) {
      ++counts_.refreshed;
      taken.missing.push_back(static_cast<std::int64_t>(i));
      return;
    }
    ++counts_.hits;
    counts_.age_steps += age;
    counts_.oldest = std::max<std::uint64_t>(counts_.oldest, age);
    taken.version = std::min(taken.version, entry.version);
    std::copy_n(row(number), width_, out + i * width_);
  });
  return taken;
}

void RowCache::put(const std::int64_t* keys, std::size_t n, const float* rows, std::uint32_t now,
                   std::uint64_t version) {
  for_each(keys, n, [&](std::size_t i, std::uint32_t, std::uint32_t place) {
    std::uint32_t number = index_.find(keys[i], place);
    if (number == Index::kNone) {
      number = enter(keys[i], place);
      if (number == Index::kNone) return;
    } else if (static_cast<std::int32_t>(now - entries_[number].step) < 0) {
      return;  // an answer that was overtaken
    }
    entries_[number].step = now;
    entries_[number].version = version;
    std::copy_n(rows + i * width_, width_, row(number));
  });
}

bool RowCache::is_known(std::int64_t key) {
  if (known_.empty()) known_.resize(std::max<std::size_t>(1, capacity_ / 8));
  if (num_known_ > known_.size() * 16) {  // a quarter of the bits: then too many would seem to be known
    std::fill(known_.begin(), known_.end(), 0);
    num_known_ = 0;
  }
  const std::uint64_t hash = mix64(key);
  std::uint64_t& word = known_[(hash >> 6) % known_.size()];
  const std::uint64_t bit = std::uint64_t{1} << (hash & 63);
  const bool is = (word & bit) != 0;
  num_known_ += !is;
  word |= bit;
  return is;
}

std::uint32_t RowCache::enter(std::int64_t key, std::uint32_t place) {
  auto number = static_cast<std::uint32_t>(entries_.size());
  if (entries_.size() < capacity_) {
    if (number / kBlock == blocks_.size()) blocks_.emplace_back(kBlock * width_);
    entries_.push_back({});
  } else {
    if (!is_known(key)) return Index::kNone;
    number = Index::kNone;
    for (int tries = 0; tries < kTries && number == Index::kNone && capacity_ != 0; ++tries) {
      Entry& passed = entries_[hand_];
      if (passed.uses == 0) number = static_cast<std::uint32_t>(hand_);
      passed.uses /= 2;
      hand_ = hand_ + 1 == capacity_ ? 0 : hand_ + 1;
    }
    if (number == Index::kNone) return number;
    const std::int64_t gone = entries_[number].key;
    index_.erase(gone, Index::place(mix64(gone)));
    ++counts_.evicted;
  }
  index_.insert(key, place, number);
  entries_[number] = {key, 0, 0, 0};
  return number;
}

void RowCache::clear() {
  index_ = Index();
  blocks_.clear();
  entries_.clear();
  known_.clear();
  hand_ = num_known_ = 0;
}

}  // namespace fleet
