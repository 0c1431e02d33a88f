#include "table/summed.h"

#include <algorithm>
#include <atomic>

#include "keys/scratch.h"
#include "table/finite.h"

namespace fleet {
namespace {

// Rows that are summed at a time: they stay in the second-level cache until they are checked.
constexpr std::size_t kRows = 4096;

bool is_ascending(const std::int64_t* keys, std::size_t n) {
  bool ascending = true;
  for (std::size_t i = 1; i < n; ++i) ascending &= keys[i - 1] < keys[i];
  return ascending;
}

}  // namespace

Summed::Summed(const Push* pushes, std::size_t count, std::size_t width, bool checks)
    : width_(width), push_(pushes[0]) {
  if (count == 1 && is_ascending(push_.keys, push_.n)) {
    take_one(pushes[0], checks);
  } else {
    add_all(pushes, count, checks);
  }
}

void Summed::take_one(const Push& given, bool checks) {
  const bool scales = given.scale != 1.0f;
  if (!scales && !checks) return;
  if (scales) {
    grads_.resize(given.n * width_);
    push_.grads = grads_.data();
  }
  std::atomic<bool> finite{true};
  const std::size_t num_parts = parts_for(given.n, scales ? kRows : 4 * kRows);  // only to look takes little
  Team::shared().parallel_for(num_parts, [&](std::size_t part) {
    const Slice mine = slice_of(given.n, num_parts, part);
    for (std::size_t begin = mine.begin; begin < mine.end; begin += kRows) {
      const std::size_t end = std::min(begin + kRows, mine.end);
      if (!scales) {
        if (!all_finite(given.grads + begin * width_, (end - begin) * width_)) finite = false;
        continue;
      }
      std::copy(given.grads + begin * width_, given.grads + end * width_, grads_.data() + begin * width_);
      if (!finish({begin, end}, checks)) finite = false;
    }
  });
  is_finite_ = finite;
}

void Summed::add_all(const Push* pushes, std::size_t count, bool checks) {
  std::vector<std::size_t> begins{0};  // of each push, among all inputs
  for (std::size_t p = 0; p < count; ++p) begins.push_back(begins.back() + pushes[p].n);
  Scratch<std::int64_t> keys(begins.back());
  bool each_ascends = true, has_shows = false, has_clicks = false;
  for (std::size_t p = 0; p < count; ++p) {
    std::copy_n(pushes[p].keys, pushes[p].n, keys.data() + begins[p]);
    each_ascends = each_ascends && is_ascending(pushes[p].keys, pushes[p].n);
    has_shows = has_shows || pushes[p].shows != nullptr;
    has_clicks = has_clicks || pushes[p].clicks != nullptr;
  }
  const bool from_zero = !is_ascending(keys.data(), keys.size());
  unique_ = fleet::unique(keys.data(), keys.size());
  const std::size_t n = unique_.keys.size();
  grads_.resize(n * width_);
  counts_.resize(n);
  shows_.resize(has_shows ? n : 0);
  clicks_.resize(has_clicks ? n : 0);
  push_.keys = unique_.keys.data();
  push_.n = n;
  push_.grads = grads_.data();
  push_.counts = counts_.data();
  push_.shows = has_shows ? shows_.data() : nullptr;
  push_.clicks = has_clicks ? clicks_.data() : nullptr;

  // Where each push ascends, its inputs for some of the distinct keys follow each other.
  const std::size_t each = each_ascends ? kRows : std::max<std::size_t>(n, 1);
  std::atomic<bool> finite{true};
  Team::shared().parallel_for((n + each - 1) / each, [&](std::size_t part) {
    const Slice rows{part * each, std::min(part * each + each, n)};
    if (from_zero) std::fill(grads_.begin() + rows.begin * width_, grads_.begin() + rows.end * width_, 0.0f);
    for (std::size_t p = 0; p < count; ++p) {
      const std::int64_t* const rank = unique_.inverse.data() + begins[p];
      const auto at = [&](std::size_t row) {
        return static_cast<std::size_t>(std::lower_bound(rank, rank + pushes[p].n, static_cast<std::int64_t>(row)) -
                                        rank);
      };
      add(pushes[p], each_ascends ? Slice{at(rows.begin), at(rows.end)} : Slice{0, pushes[p].n}, rank, from_zero);
    }
    if (!finish(rows, checks)) finite = false;
  });
  is_finite_ = finite;
}

void Summed::add(const Push& given, Slice inputs, const std::int64_t* rank, bool from_zero) {
  for (std::size_t i = inputs.begin; i < inputs.end; ++i) {
    const auto at = static_cast<std::size_t>(rank[i]);
    const float* const from = given.grads + i * width_;
    float* const to = grads_.data() + at * width_;
    if (from_zero) {
      for (std::size_t d = 0; d < width_; ++d) to[d] += from[d];
    } else {
      std::copy_n(from, width_, to);
    }
    const std::uint32_t times = given.counts == nullptr ? 1 : given.counts[i];
    counts_[at] = add_full(counts_[at], times);
    if (!shows_.empty()) shows_[at] += given.shows == nullptr ? static_cast<float>(times) : given.shows[i];
    if (!clicks_.empty() && given.clicks != nullptr) clicks_[at] += given.clicks[i];
  }
}

bool Summed::finish(Slice rows, bool checks) {
  float* const values = grads_.data() + rows.begin * width_;
  const std::size_t n = (rows.end - rows.begin) * width_;
  if (push_.scale != 1.0f) {
    for (std::size_t i = 0; i < n; ++i) values[i] *= push_.scale;
  }
  return !checks || all_finite(values, n);
}

}  // namespace fleet
