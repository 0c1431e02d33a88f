#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "table/finite.h"
#include "table/group.h"
#include "table/summed.h"

namespace fleet {

// All that is not the gradients.
void Table::check_numbers(const Push& push) const {
  const std::string who = "table '" + options_.name + "': the ";
  const std::string step = " of step " + std::to_string(push.step);
  if (!(push.lr >= 0) || std::isinf(push.lr) || !std::isfinite(push.scale)) {
    throw std::invalid_argument(who + "learning rate" + step + " must be finite and >= 0, and so must be its scale");
  }
  if ((push.shows != nullptr && !all_finite(push.shows, push.n)) ||
      (push.clicks != nullptr && !all_finite(push.clicks, push.n))) {
    throw std::invalid_argument(who + "shows and clicks" + step + " hold a NaN or an Inf; nothing was applied");
  }
}

void Table::refuse_sums(const Push& push) const {
  throw std::invalid_argument("table '" + options_.name + "': the gradients of step " + std::to_string(push.step) +
                              " hold a NaN or an Inf; nothing was applied");
}

void Table::check_all(const Push* pushes, std::size_t count) const {
  refuse_if_full();
  // Not even if all keys were equal: with this many sums, rounding makes them at most 8 times as large.
  constexpr std::size_t kMost = std::size_t{1} << 25;
  constexpr double kSafe = std::numeric_limits<float>::max() / 16.0;
  double most = 0;
  std::size_t n = 0;
  for (std::size_t p = 0; p < count; ++p) {
    check_numbers(pushes[p]);
    n += pushes[p].n;
    if (pushes[p].skip_nonfinite) continue;
    most +=
        static_cast<double>(largest(pushes[p].grads, pushes[p].n * format_.width)) * static_cast<double>(pushes[p].n);
  }
  if (count == 0 || pushes[0].skip_nonfinite) return;
  if (n <= kMost && most * std::max(1.0, std::fabs(static_cast<double>(pushes[0].scale))) <= kSafe) return;
  // Finite gradients of equal keys can add up to an Inf.
  if (!Summed(pushes, count, format_.width, true).is_finite()) refuse_sums(pushes[0]);
}

Pushed Table::push_all(const Push* pushes, std::size_t count) {
  if (count == 0) return {};
  for (std::size_t p = 0; p < count; ++p) check_numbers(pushes[p]);
  const Summed summed(pushes, count, format_.width, !pushes[0].skip_nonfinite);
  const Push& push = summed.push();
  if (!summed.is_finite()) refuse_sums(push);
  Pushed result;
  if (tier_ != nullptr) {
    push_cold(push, result);
    return result;
  }
  // A shard sees the same blocks in the same order, however many threads there are: what it evicts depends on it.
  if (parts_for(push.n, kWorthAThread) > 1) return push_shards(push);
  for_each_group(push.keys, push.n,
                 [&](std::size_t s, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
                   push_and_evict(s, block, begin, end, push, offset, result);
                 });
  return result;
}

Pushed Table::push_shards(const Push& push) {
  const std::size_t num_blocks = (push.n + Block::kSize - 1) / Block::kSize;
  const auto blocks = std::make_unique<Block[]>(num_blocks);
  Team& team = Team::shared();
  const std::size_t num_fillers = (num_blocks + 1) / 2;  // to wake a thread for one would take as long
  const auto fill = [&](std::size_t b) {
    const std::size_t offset = b * Block::kSize;
    blocks[b].fill(push.keys + offset, std::min(Block::kSize, push.n - offset));
  };
  team.parallel_for(num_fillers, [&](std::size_t part) {
    for (std::size_t b = part; b < num_blocks; b += num_fillers) fill(b);
  });
  Pushed results[kShards];
  // Waking a thread takes as long as some hundred rows: a few shards each, for as many as have enough to do.
  std::atomic<std::size_t> next{0};
  team.parallel_for(std::min(kShards, fine_parts_for(push.n, kWorthAThread)), [&](std::size_t) {
    for (std::size_t s = next++; s < kShards; s = next++) {
      for (std::size_t b = 0; b < num_blocks; ++b) {
        const std::size_t begin = blocks[b].begins[s], end = blocks[b].begins[s + 1];
        if (begin != end) push_and_evict(s, blocks[b], begin, end, push, b * Block::kSize, results[s]);
      }
    }
  });
  Pushed total;
  for (const Pushed& one : results) {
    total.created += one.created;
    total.waiting += one.waiting;
    total.skipped += one.skipped;
    total.evicted += one.evicted;
  }
  return total;
}

void Table::push_and_evict(std::size_t s, const Block& block, std::size_t begin, std::size_t end, const Push& push,
                           std::size_t offset, Pushed& result) {
  if ((push.skip_shards >> s) & 1u) return;
  Shard& shard = *shards_[s];
  const std::lock_guard<std::mutex> lock(shard.mutex);
  push_group(shard, block, begin, end, push, offset, result);
  result.evicted += evict(shard);
}

void Table::push_group(Shard& shard, const Block& block, std::size_t begin, std::size_t end, const Push& push,
                       std::size_t offset, Pushed& result) {
  std::uint32_t rows[Block::kSize];
  const std::int64_t* keys = push.keys + offset;
  const float* grads = push.grads + offset * format_.width;
  const std::size_t grad_bytes = format_.width * sizeof(float);
  if (shard.index.size() != 0) {
    for (std::size_t i = begin; i < end; ++i) shard.index.prefetch(block.places[i]);
  }
  const bool is_watched = !shard.watches.empty();
  // What a key needs is asked for some keys before it is used.
  constexpr std::size_t kAhead = 24;
  for (std::size_t i = begin; i < end + kAhead; ++i) {
    if (i < end) {
      const std::size_t at = block.order[i];
      const auto* from = reinterpret_cast<const std::byte*>(grads + at * format_.width);
      for (std::size_t b = 0; b < grad_bytes; b += 64) __builtin_prefetch(from + b);
      const std::uint32_t row = shard.index.find(keys[at], block.places[i]);
      rows[i - begin] = row;
      if (row != Index::kNone) {
        const std::byte* data = shard.rows.row(row);
        for (std::size_t b = 0; b < format_.row_bytes(); b += 64) __builtin_prefetch(data + b, 1);
        __builtin_prefetch(&shard.rows.mark(row), 1);
      }
    }
    if (i < begin + kAhead) continue;
    const std::size_t at = block.order[i - kAhead];
    const float* from = grads + at * format_.width;
    if (push.skip_nonfinite && !all_finite(from, format_.width)) {
      ++result.skipped;
      continue;
    }
    std::uint32_t row = rows[i - kAhead - begin];
    if (row == Index::kNone) {
      row = enter(shard, keys[at], block.places[i - kAhead], push, offset + at, result);
      if (row == Index::kNone) {  // it waits, was not let in, or has a row that has to be trained later
        for (Watch& watch : shard.watches) touch_for(shard, watch, keys[at], block.places[i - kAhead]);
        continue;
      }
    } else {
      note(shard.rows, row, push, offset + at);
    }
    if (is_watched) touch_row(shard, keys[at], row);
    update(shard.rows.row(row), keys[at], from, push);
  }
}

void Table::note(Slab& slab, std::uint32_t row, const Push& push, std::size_t i) const {
  Mark& mark = slab.mark(row);
  const std::uint32_t count = push.counts == nullptr ? 1 : push.counts[i];
  mark.seen = add_full(mark.seen, count);
  mark.step = std::max(mark.step, push.step);
  if (!options_.entry.has_clicks()) return;
  Clicks& clicks = slab.clicks(row);
  clicks.shows += push.shows == nullptr ? static_cast<float>(count) : push.shows[i];
  if (push.clicks != nullptr) clicks.clicks += push.clicks[i];
}

std::uint32_t Table::add_row(Shard& shard, std::int64_t key, std::uint32_t place) {
  const std::uint32_t row = shard.rows.take();
  try {
    shard.index.insert(key, place, row);
  } catch (...) {
    shard.rows.give_back(row);
    throw;
  }
  return row;
}

std::uint32_t Table::make_row(Shard& shard, std::int64_t key, std::uint32_t place) {
  const std::uint32_t row = add_row(shard, key, place);
  std::byte* data = shard.rows.row(row);
  static thread_local std::vector<float> values;
  values.resize(format_.width);
  first_value(key, values.data());
  format_.store(values.data(), data);
  options_.rule->start(format_.state(data), format_.width);
  shard.rows.mark(row) = {};
  if (options_.entry.has_clicks()) shard.rows.clicks(row) = {};
  return row;
}

std::uint32_t Table::enter(Shard& shard, std::int64_t key, std::uint32_t place, const Push& push, std::size_t i,
                           Pushed& result) {
  const Entry& entry = options_.entry;
  if (entry.is_always()) {
    const std::uint32_t row = make_row(shard, key, place);
    note(shard.rows, row, push, i);
    ++result.created;
    return row;
  }
  ++result.waiting;
  if (!entry.counts()) {
    const Mark mark{0, push.step};
    if (entry.admits(seed_, key, mark, {})) {
      note(shard.rows, make_row(shard, key, place), push, i);
      ++result.created;
    }
    return Index::kNone;
  }
  std::uint32_t waiting = shard.waiting.find(key, place);
  if (waiting == Index::kNone) {
    waiting = shard.waiting_marks.take();
    shard.waiting_marks.mark(waiting) = {};
    if (entry.has_clicks()) shard.waiting_marks.clicks(waiting) = {};
    shard.waiting.insert(key, place, waiting);
  }
  note(shard.waiting_marks, waiting, push, i);
  const Mark mark = shard.waiting_marks.mark(waiting);
  const Clicks clicks = entry.has_clicks() ? shard.waiting_marks.clicks(waiting) : Clicks{};
  if (entry.admits(seed_, key, mark, clicks)) {
    const std::uint32_t row = make_row(shard, key, place);
    shard.rows.mark(row) = mark;
    if (entry.has_clicks()) shard.rows.clicks(row) = clicks;
    forget(shard, key, place);
    ++result.created;
  }
  return Index::kNone;  // its reader saw zeros: this gradient is none of the new row's
}

void Table::update(std::byte* row, std::int64_t key, const float* grads, const Push& push) const {
  const Rule& rule = *options_.rule;
  if (format_.dtype == Dtype::kFloat32) {
    auto* values = reinterpret_cast<float*>(row);
    rule.apply(values, format_.state(row), grads, format_.width, push.lr);
    if (options_.has_bounds) clamp(values);
    limit_norm(values);
    return;
  }
  static thread_local std::vector<float> values;
  values.resize(format_.width);
  format_.load(row, values.data());
  rule.apply(values.data(), format_.state(row), grads, format_.width, push.lr);
  if (options_.has_bounds) clamp(values.data());
  format_.store(values.data(), row, rounding_state(seed_, key, push.step));
  if (!options_.has_max_norm) return;
  format_.load(row, values.data());
  limit_norm(values.data());  // a row that is not too long has the same bits afterwards
  format_.store(values.data(), row);
}

void Table::clamp(float* values) const {
  for (std::size_t d = 0; d < format_.width; ++d)
    values[d] = std::min(std::max(values[d], options_.low), options_.high);
}

}  // namespace fleet
