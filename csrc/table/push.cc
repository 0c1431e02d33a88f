#include <cmath>
#include <limits>
#include <stdexcept>

#include "keys/unique.h"
#include "table/finite.h"
#include "table/group.h"

namespace fleet {

namespace {

bool is_ascending(const std::int64_t* keys, std::size_t n) {
  bool ascending = true;
  for (std::size_t i = 1; i < n; ++i) ascending &= keys[i - 1] < keys[i];
  return ascending;
}

std::uint32_t add_full(std::uint32_t a, std::uint32_t b) { return a + b < a ? 0xffffffffu : a + b; }

// A push with each key once: gradients and counters of equal keys are added, in the order they come in.
struct Summed {
  Summed(const Push& given, std::size_t width) : push(given) {
    if (is_ascending(given.keys, given.n)) {  // as our own workers send them
      if (given.scale == 1.0f) return;
      grads.assign(given.grads, given.grads + given.n * width);
      scale();
      return;
    }
    unique = fleet::unique(given.keys, given.n);
    const std::size_t n = unique.keys.size();
    grads.assign(n * width, 0.0f);
    counts.assign(n, 0);
    if (given.shows != nullptr) shows.assign(n, 0.0f);
    if (given.clicks != nullptr) clicks.assign(n, 0.0f);
    for (std::size_t i = 0; i < given.n; ++i) {
      const auto at = static_cast<std::size_t>(unique.inverse[i]);
      const float* from = given.grads + i * width;
      float* to = grads.data() + at * width;
      for (std::size_t d = 0; d < width; ++d) to[d] += from[d];
      counts[at] = add_full(counts[at], given.counts == nullptr ? 1 : given.counts[i]);
      if (given.shows != nullptr) shows[at] += given.shows[i];
      if (given.clicks != nullptr) clicks[at] += given.clicks[i];
    }
    push.keys = unique.keys.data();
    push.n = n;
    scale();
    push.counts = counts.data();
    if (given.shows != nullptr) push.shows = shows.data();
    if (given.clicks != nullptr) push.clicks = clicks.data();
  }

  void scale() {
    if (push.scale != 1.0f) {
      for (float& value : grads) value *= push.scale;
    }
    push.grads = grads.data();
  }

  Push push;
  Unique unique;
  std::vector<float> grads, shows, clicks;
  std::vector<std::uint32_t> counts;
};

}  // namespace

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

// The sums: finite gradients of equal keys can add up to an Inf.
void Table::check_sums(const Push& push) const {
  if (push.skip_nonfinite || all_finite(push.grads, push.n * format_.width)) return;
  throw std::invalid_argument("table '" + options_.name + "': the gradients of step " + std::to_string(push.step) +
                              " hold a NaN or an Inf; nothing was applied");
}

void Table::check(const Push& push) const {
  refuse_if_full();
  check_numbers(push);
  if (push.skip_nonfinite) return;
  // Not even if all keys were equal: with this many sums, rounding makes them at most 8 times as large.
  constexpr std::size_t kMost = std::size_t{1} << 25;
  constexpr double kSafe = std::numeric_limits<float>::max() / 16.0;
  const double most = static_cast<double>(largest(push.grads, push.n * format_.width)) * static_cast<double>(push.n);
  if (push.n <= kMost && most * std::max(1.0, std::fabs(static_cast<double>(push.scale))) <= kSafe) return;
  check_sums(Summed(push, format_.width).push);
}

Pushed Table::push(const Push& given) {
  check_numbers(given);
  const Summed summed(given, format_.width);
  const Push& push = summed.push;
  check_sums(push);
  Pushed result;
  if (tier_ != nullptr) {
    push_cold(push, result);
    return result;
  }
  for_each_group(push.keys, push.n,
                 [&](std::size_t s, const Block& block, std::size_t begin, std::size_t end, std::size_t offset) {
                   if ((push.skip_shards >> s) & 1u) return;
                   Shard& shard = *shards_[s];
                   const std::lock_guard<std::mutex> lock(shard.mutex);
                   push_group(shard, block, begin, end, push, offset, result);
                   result.evicted += evict(shard);
                 });
  return result;
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
  for (std::size_t i = begin; i < end; ++i) {
    const std::size_t at = block.order[i];
    const auto* from = reinterpret_cast<const std::byte*>(grads + at * format_.width);
    for (std::size_t b = 0; b < grad_bytes; b += 64) __builtin_prefetch(from + b);
    const std::uint32_t row = shard.index.find(keys[at], block.places[i]);
    rows[i - begin] = row;
    if (row == Index::kNone) continue;
    const std::byte* data = shard.rows.row(row);
    for (std::size_t b = 0; b < format_.row_bytes(); b += 64) __builtin_prefetch(data + b, 1);
    __builtin_prefetch(&shard.rows.mark(row), 1);
  }
  for (std::size_t i = begin; i < end; ++i) {
    const std::size_t at = block.order[i];
    const float* from = grads + at * format_.width;
    if (push.skip_nonfinite && !all_finite(from, format_.width)) {
      ++result.skipped;
      continue;
    }
    std::uint32_t row = rows[i - begin];
    if (row == Index::kNone) {
      row = enter(shard, keys[at], block.places[i], push, offset + at, result);
      if (row == Index::kNone) continue;
    } else {
      note(shard.rows, row, push, offset + at);
    }
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
