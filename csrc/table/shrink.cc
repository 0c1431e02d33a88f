// Deleting rows: those that nobody needs any more, and those that do not fit.
#include <algorithm>
#include <utility>

#include "table/cold.h"

namespace fleet {

namespace {

using Found = std::vector<std::pair<std::int64_t, std::uint32_t>>;

// Steps since a mark, also when a loaded table has a later step than the present.
std::uint32_t age(const Mark& mark, std::uint32_t now) { return now > mark.step ? now - mark.step : 0; }

}  // namespace

void Table::remove(Shard& shard, std::int64_t key, std::uint32_t row) const {
  shard.index.erase(key, Index::place(mix64(key)));
  shard.rows.give_back(row);
}

void Table::forget(Shard& shard, std::int64_t key, std::uint32_t place) const {
  const std::uint32_t waiting = shard.waiting.find(key, place);
  if (waiting == Index::kNone) return;
  touch_gone(shard, key, waiting, &Watch::waiting);
  shard.waiting.erase(key, place);
  shard.waiting_marks.give_back(waiting);
}

bool Table::is_done(const ShrinkRule& rule, const Mark& mark, Clicks* clicks) const {
  if (clicks != nullptr && rule.decay != 0) {
    clicks->shows *= static_cast<float>(rule.decay);
    clicks->clicks *= static_cast<float>(rule.decay);
  }
  if (rule.unseen_steps != 0 && age(mark, rule.now) > rule.unseen_steps) return true;
  return rule.use_score && clicks != nullptr && options_.entry.score(*clicks) < rule.score_below;
}

std::size_t Table::shrink(const ShrinkRule& rule) {
  std::size_t deleted = 0;
  for (std::size_t s = 0; s < kShards; ++s) {
    if ((rule.skip_shards >> s) & 1u) continue;
    Shard& shard = *shards_[s];
    // Nobody merges meanwhile.
    const auto replacing =
        shard.cold == nullptr ? std::unique_lock<std::mutex>() : std::unique_lock<std::mutex>(shard.cold->replacing);
    const std::lock_guard<std::mutex> lock(shard.mutex);
    if (rule.decay != 0 && options_.entry.has_clicks()) touch_shard(shard);  // every counter
    if (shard.cold != nullptr) shrink_cold(s, shard, rule, deleted);
    const auto is_done_in = [&](Slab& slab, std::uint32_t row) {
      return is_done(rule, slab.mark(row), options_.entry.has_clicks() ? &slab.clicks(row) : nullptr);
    };
    Found gone;
    shard.index.for_each([&](std::int64_t key, std::uint32_t row) {
      if (is_done_in(shard.rows, row)) gone.emplace_back(key, row);
    });
    for (const auto& [key, row] : gone) {
      if (shard.cold != nullptr) shard.cold->drop_flag(row);
      touch_gone(shard, key, row, &Watch::rows);
      remove(shard, key, row);
    }
    deleted += gone.size();
    gone.clear();
    shard.waiting.for_each([&](std::int64_t key, std::uint32_t row) {
      if (is_done_in(shard.waiting_marks, row)) gone.emplace_back(key, row);
    });
    for (const auto& each_gone : gone) forget(shard, each_gone.first, Index::place(mix64(each_gone.first)));
    for (Index* index : {&shard.index, &shard.waiting}) {
      if (index->is_sparse()) index->fit();
    }
  }
  return deleted;
}

Erased Table::erase(const std::int64_t* keys, std::size_t n, std::uint64_t skip_shards) {
  std::vector<std::vector<std::int64_t>> by_shard(kShards);
  for (std::size_t i = 0; i < n; ++i) by_shard[mix64(keys[i]) % kShards].push_back(keys[i]);
  Erased erased;
  for (std::size_t s = 0; s < kShards; ++s) {
    if (by_shard[s].empty() || ((skip_shards >> s) & 1u) != 0) continue;
    Shard& shard = *shards_[s];
    const auto replacing =
        shard.cold == nullptr ? std::unique_lock<std::mutex>() : std::unique_lock<std::mutex>(shard.cold->replacing);
    const std::lock_guard<std::mutex> lock(shard.mutex);
    touch_shard(shard);  // without a key: that would be a trace of it
    if (shard.cold != nullptr) erased.rows += erase_cold(s, shard, by_shard[s]);
    for (const std::int64_t key : by_shard[s]) {
      const std::uint32_t place = Index::place(mix64(key)), row = shard.index.find(key, place);
      if (row != Index::kNone) {
        if (shard.cold != nullptr) shard.cold->drop_flag(row);
        remove(shard, key, row);
        ++erased.rows;
      }
      const std::uint32_t waiting = shard.waiting.find(key, place);
      if (waiting == Index::kNone) continue;
      shard.waiting.erase(key, place);
      shard.waiting_marks.give_back(waiting);
      ++erased.waiting;
    }
  }
  return erased;
}

std::vector<std::int64_t> Table::doomed(const ShrinkRule& rule) const {
  std::vector<std::int64_t> keys;
  const bool has_clicks = options_.entry.has_clicks();
  for (const auto& each : shards_) {
    const Shard& shard = *each;
    const std::lock_guard<std::mutex> lock(each->mutex);
    if (shard.cold != nullptr) doomed_cold(shard, rule, keys);
    shard.index.for_each([&](std::int64_t key, std::uint32_t row) {
      Clicks clicks = has_clicks ? shard.rows.clicks(row) : Clicks{};
      if (is_done(rule, shard.rows.mark(row), has_clicks ? &clicks : nullptr)) keys.push_back(key);
    });
  }
  return keys;
}

std::size_t Table::evict(Shard& shard) const {
  if (options_.max_bytes == 0) return 0;
  const std::size_t ceiling = options_.max_bytes / kShards;
  if (shard.bytes() <= ceiling) return 0;
  // Keys that only wait go first.
  shard.waiting.for_each([&](std::int64_t key, std::uint32_t row) {
    touch_gone(shard, key, row, &Watch::waiting);
    shard.waiting_marks.give_back(row);
  });
  shard.waiting = Index();
  if (shard.bytes() <= ceiling) return 0;
  // Then rows, those of the oldest steps and of the smallest keys among them; an eighth more than needed, so that the
  // next push need not come back.
  const std::size_t room = ceiling - ceiling / 8;
  const std::size_t fitting =
      (room - std::min(room, Index::kBytesOnce)) / (shard.rows.bytes_each() + Index::kBytesEach);
  const std::size_t count = shard.index.size() - std::min(shard.index.size(), fitting);
  Found all;
  all.reserve(shard.index.size());
  shard.index.for_each([&](std::int64_t key, std::uint32_t row) { all.emplace_back(key, row); });
  const auto is_older = [&](const auto& a, const auto& b) {
    return std::make_pair(shard.rows.mark(a.second).step, a.first) <
           std::make_pair(shard.rows.mark(b.second).step, b.first);
  };
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(), is_older);
  for (std::size_t i = 0; i < count; ++i) {
    touch_gone(shard, all[i].first, all[i].second, &Watch::rows);
    remove(shard, all[i].first, all[i].second);
  }
  const std::size_t taken = shard.index.bytes() + shard.rows.num_used() * shard.rows.bytes_each();
  if (taken > ceiling || shard.index.is_sparse()) shard.index.fit();
  return count;
}

void Table::clear() {
  for (const auto& each : shards_) {
    Shard& shard = *each;
    const auto replacing =
        shard.cold == nullptr ? std::unique_lock<std::mutex>() : std::unique_lock<std::mutex>(shard.cold->replacing);
    const std::lock_guard<std::mutex> lock(shard.mutex);
    touch_shard(shard);
    if (shard.cold != nullptr) clear_cold(shard);
    shard.index.for_each([&](std::int64_t, std::uint32_t row) { shard.rows.give_back(row); });
    shard.waiting.for_each([&](std::int64_t, std::uint32_t row) { shard.waiting_marks.give_back(row); });
    shard.index = Index();
    shard.waiting = Index();
  }
}

}  // namespace fleet
