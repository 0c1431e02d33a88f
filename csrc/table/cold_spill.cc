// Rows on their way from memory to the disk, and runs that become one.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "table/cold.h"

namespace fleet {

namespace {

struct Candidate {
  float worth;
  std::uint32_t row;
  std::int64_t key;
};

void write_record(const disk::Shape& shape, const Slab& rows, const Candidate& one, std::byte* to) {
  std::memcpy(to, &one.key, 8);
  std::memcpy(to + 8, &rows.mark(one.row), sizeof(Mark));
  if (shape.has_clicks) std::memcpy(to + 16, &rows.clicks(one.row), sizeof(Clicks));
  std::memcpy(to + shape.row_at, rows.row(one.row), shape.record_bytes - shape.row_at);
}

}  // namespace

std::size_t Table::most_rows(const Shard& shard) const {
  const std::size_t each = shard.rows.bytes_each() + Index::kBytesEach + 1;
  const std::size_t taken = shard.cold->index_bytes + Index::count_bytes(shard.waiting.size()) +
                            shard.waiting_marks.num_used() * shard.waiting_marks.bytes_each();
  return std::max<std::size_t>(1, tier_->hot_bytes(taken) / each);
}

void Table::spill(std::size_t s, Shard& shard) const {
  ColdShard& cold = *shard.cold;
  const std::size_t most = most_rows(shard);
  const std::size_t size = shard.index.size();
  const bool may_write = !tier_->is_failing();
  if (size <= (may_write ? most : most + most / 8)) return;
  // A row that was seen twice as often is worth as much as one that was seen an eighth of the present time span later.
  std::vector<Candidate> all;
  all.reserve(size);
  std::uint32_t oldest = 0xffffffffu, newest = 0;
  shard.index.for_each([&](std::int64_t key, std::uint32_t row) {
    const Mark& mark = shard.rows.mark(row);
    oldest = std::min(oldest, mark.step);
    newest = std::max(newest, mark.step);
    all.push_back({0, row, key});
  });
  const float often = std::max(1.0f, static_cast<float>(newest - oldest) / 8);
  for (Candidate& one : all) {
    const Mark& mark = shard.rows.mark(one.row);
    one.worth = static_cast<float>(mark.step - oldest) + often * std::log2(1.0f + static_cast<float>(mark.seen));
  }
  const std::size_t count = size - most / 8 * 5;
  std::nth_element(
      all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(),
      [](const Candidate& a, const Candidate& b) { return a.worth != b.worth ? a.worth < b.worth : a.key < b.key; });
  all.resize(count);
  const auto changed = std::stable_partition(
      all.begin(), all.end(), [&](const Candidate& one) { return (cold.flag(one.row) & ColdShard::kChanged) != 0; });
  const auto num_changed = static_cast<std::size_t>(changed - all.begin());
  if (num_changed != 0 && !may_write) {
    all.erase(all.begin(), changed);
  } else if (num_changed != 0) {
    std::sort(all.begin(), changed, [](const Candidate& a, const Candidate& b) { return mix64(a.key) < mix64(b.key); });
    try {
      disk::RunWriter writer(tier_->next_path(s), tier_->shape, num_changed, 0);
      for (std::size_t i = 0; i < num_changed; ++i) {
        if (i + 8 < num_changed) __builtin_prefetch(shard.rows.row(all[i + 8].row));
        write_record(tier_->shape, shard.rows, all[i], writer.add(mix64(all[i].key)));
      }
      disk::Runs runs{writer.finish()};
      runs.insert(runs.end(), cold.runs.begin(), cold.runs.end());
      cold.set_runs(std::move(runs));
      tier_->written_rows += num_changed;
    } catch (const disk::DiskError& error) {
      tier_->fail(s, error);
      all.erase(all.begin(), changed);  // what changed stays where it is; the rest can go
    }
  }
  for (const Candidate& one : all) {
    cold.drop_flag(one.row);
    for (Watch& watch : shard.watches) watch.may_repeat |= watch.rows.remove(one.row);  // it stays noted
    remove(shard, one.key, one.row);
  }
  cold.num_cold += all.size();
  tier_->spilled_rows += all.size();
  ++cold.epoch;
  const auto [begin, end] = runs_to_merge(cold);
  if (begin != end) tier_->ask(s);
}

void Table::merge(std::size_t s, Shard& shard) const {
  ColdShard& cold = *shard.cold;
  const std::lock_guard<std::mutex> replacing(cold.replacing);
  while (!tier_->is_stopping()) {
    disk::Runs some;
    {
      const std::lock_guard<std::mutex> lock(shard.mutex);
      const auto [begin, end] = runs_to_merge(cold);
      if (begin == end) return;
      some.assign(cold.runs.begin() + static_cast<std::ptrdiff_t>(begin),
                  cold.runs.begin() + static_cast<std::ptrdiff_t>(end));
    }
    const bool is_one_level = some.front()->level() == some.back()->level();
    const std::uint32_t level = some.back()->level() + (is_one_level ? 1 : 0);
    std::shared_ptr<const disk::Run> merged;
    std::size_t count = 0;
    try {
      merged = disk::merge(some, tier_->next_path(s), level, [&](const std::byte*) {
        if ((++count & 0xfffu) == 0 && tier_->is_stopping()) throw Stopping();
        return true;
      });
    } catch (const Stopping&) {
      return;
    } catch (const std::bad_alloc&) {
      return;  // so they do here: in a thread of its own there is nobody to tell
    } catch (const disk::DiskError&) {
      return;  // the runs stay as they are; who writes next finds out whether there is room
    }
    tier_->merged_rows += count;
    {
      const std::lock_guard<std::mutex> lock(shard.mutex);  // new runs may have come before these
      disk::Runs runs;
      bool is_put = false;
      for (const auto& run : cold.runs) {
        const bool is_merged = std::find(some.begin(), some.end(), run) != some.end();
        if (!is_merged) runs.push_back(run);
        if (is_merged && !is_put) runs.push_back(merged);
        is_put = is_put || is_merged;
      }
      cold.set_runs(std::move(runs));
    }
    for (const auto& run : some) ::unlink(run->file().path().c_str());
  }
}

void Table::clear_cold(Shard& shard) const {
  ColdShard& cold = *shard.cold;
  for (const auto& run : cold.runs) ::unlink(run->file().path().c_str());
  cold.set_runs({});
  cold.flags.clear();
  cold.num_cold = cold.num_both = 0;
  ++cold.epoch;
}

}  // namespace fleet
