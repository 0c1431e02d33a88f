#include "plane/dense.h"

#include <algorithm>
#include <atomic>

#include "table/finite.h"
#include "threads/team.h"

namespace fleet::plane {

namespace {

constexpr std::size_t kSlice = std::size_t{1} << 15;  // fewer elements are not worth a thread

std::shared_ptr<Array<float>> copy_of(const float* values, std::size_t size) {
  auto made = std::make_shared<Array<float>>(size);
  std::copy(values, values + size, made->data());
  return made;
}

// The sum of arrays in their order, times a scale, times a factor; slices of it on the threads of the team.
void add_and_scale(Array<float>& sum, const std::vector<const float*>& parts, float scale, float factor) {
  const std::size_t num_slices = parts_for(sum.size(), kSlice);
  Team::shared().parallel_for(num_slices, [&](std::size_t number) {
    const Slice slice = slice_of(sum.size(), num_slices, number);
    std::copy(parts.front() + slice.begin, parts.front() + slice.end, sum.data() + slice.begin);
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const float* other = parts[i];
      for (std::size_t at = slice.begin; at < slice.end; ++at) sum[at] += other[at];
    }
    for (std::size_t at = slice.begin; at < slice.end; ++at) sum[at] = sum[at] * scale * factor;
  });
}

}  // namespace

Dense::Dense(std::vector<std::unique_ptr<Rule>> rules, const std::vector<std::vector<std::size_t>>& parts) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    Group group{};
    group.rule = std::move(rules[i]);
    group.arrays = group.rule->state_width(2) - group.rule->state_width(1);
    group.scalars = group.rule->state_width(1) - group.arrays;
    for (const std::size_t size : parts[i]) group.ends.push_back(group.size += size);
    group.values = std::make_shared<Array<float>>(group.size);
    std::fill(group.values->data(), group.values->data() + group.size, 0.0f);
    group.state = Array<float>(group.rule->state_width(group.size));
    group.rule->start(group.state.data(), group.size);
    groups_.push_back(std::move(group));
  }
}

std::size_t Dense::shared_width(std::size_t group) const { return groups_[group].shared_width(); }
std::size_t Dense::split_width(std::size_t group) const { return groups_[group].split_width(); }

void Dense::Group::split() {
  if (is_split() || split_width() == shared_width()) return;
  Array<float> wider(split_width());
  std::copy(state.data(), state.data() + shared_width(), wider.data());
  const float* const shared = state.data() + arrays * size;
  for (std::size_t part = 1; part < ends.size(); ++part) {
    std::copy(shared, shared + scalars, wider.data() + arrays * size + part * scalars);
  }
  state = std::move(wider);
}

void Dense::Group::apply_run(std::size_t first, std::size_t last, const float* grads, double lr) {
  const std::size_t begin = first == 0 ? 0 : ends[first - 1], n = ends[last] - begin;
  float* const own = state.data() + arrays * size + (is_split() ? first * scalars : 0);
  Array<float> piece(arrays * n + scalars);
  for (std::size_t i = 0; i < arrays; ++i) {
    std::copy_n(state.data() + i * size + begin, n, piece.data() + i * n);
  }
  std::copy_n(own, scalars, piece.data() + arrays * n);
  rule->apply(values->data() + begin, piece.data(), grads + begin, n, lr);
  for (std::size_t i = 0; i < arrays; ++i) std::copy_n(piece.data() + i * n, n, state.data() + i * size + begin);
  for (std::size_t part = first; part <= last && scalars != 0; ++part) {
    std::copy_n(piece.data() + arrays * n, scalars, own + (part - first) * scalars);
  }
}

void Dense::Group::apply_parts(const std::vector<std::size_t>& absent, const float* grads, double lr) {
  split();
  const auto is_absent = [&](std::size_t part) { return std::binary_search(absent.begin(), absent.end(), part); };
  const auto is_like = [&](std::size_t part, std::size_t other) {
    const float* const all = state.data() + arrays * size;
    return std::equal(all + part * scalars, all + (part + 1) * scalars, all + other * scalars);
  };
  for (std::size_t first = 0; first < ends.size();) {
    if (is_absent(first)) {
      ++first;
      continue;
    }
    std::size_t last = first;
    while (last + 1 < ends.size() && !is_absent(last + 1) && (!is_split() || is_like(first, last + 1))) ++last;
    apply_run(first, last, grads, lr);
    first = last + 1;
  }
}

void Dense::start(std::size_t index, const float* values) {
  auto fresh = copy_of(values, groups_[index].size);
  const std::lock_guard<std::mutex> lock(mutex_);
  Group& group = groups_[index];
  group.values = std::move(fresh);
  group.state = Array<float>(group.shared_width());
  group.rule->start(group.state.data(), group.size);
}

void Dense::restore(std::size_t index, const float* values, const float* state, std::size_t width) {
  auto fresh = copy_of(values, groups_[index].size);
  const std::lock_guard<std::mutex> lock(mutex_);
  Group& group = groups_[index];
  group.values = std::move(fresh);
  group.state = Array<float>(width);
  std::copy(state, state + width, group.state.data());
}

std::vector<Dense::Values> Dense::read() const {
  std::vector<Values> found;
  found.reserve(groups_.size());
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Group& group : groups_) found.push_back(group.values);
  return found;
}

std::vector<std::pair<Dense::Values, Array<float>>> Dense::snapshot() const {
  std::vector<std::pair<Values, Array<float>>> found;
  found.reserve(groups_.size());
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Group& group : groups_) {
    Array<float> state(group.state.size());
    std::copy(group.state.data(), group.state.data() + group.state.size(), state.data());
    found.emplace_back(group.values, std::move(state));
  }
  return found;
}

Array<float> Dense::mean(const Update& update, std::size_t size, std::size_t num_pushes) {
  Array<float> sum(size);
  add_and_scale(sum, update.grads, static_cast<float>(1.0 / static_cast<double>(num_pushes)), update.factor);
  return sum;
}

std::size_t Dense::apply(const std::vector<Update>& updates, std::size_t num_pushes, bool skip_nonfinite) {
  std::size_t skipped = 0;
  Array<float> sum;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Update& update : updates) {
    Group& group = groups_[update.group];
    const float* grads = update.grads.front();
    if (num_pushes != 1 || update.factor != 1) {
      sum = mean(update, group.size, num_pushes);
      grads = sum.data();
    }
    if (skip_nonfinite && !all_finite(grads, group.size)) {
      ++skipped;
      continue;
    }
    if (group.values.use_count() > 1) group.values = copy_of(group.values->data(), group.size);
    std::atomic_thread_fence(std::memory_order_acquire);  // after what the last reader has read
    if (update.absent.empty() && !group.is_split()) {
      group.rule->apply(group.values->data(), group.state.data(), grads, group.size, update.lr);
    } else {
      group.apply_parts(update.absent, grads, update.lr);
    }
  }
  return skipped;
}

}  // namespace fleet::plane
