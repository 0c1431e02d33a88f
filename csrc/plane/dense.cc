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

// The sum of arrays in their order, times a scale; slices of it on the threads of the team.
void add_and_scale(Array<float>& sum, const std::vector<const float*>& parts, float scale) {
  const std::size_t num_slices = parts_for(sum.size(), kSlice);
  Team::shared().parallel_for(num_slices, [&](std::size_t number) {
    const Slice slice = slice_of(sum.size(), num_slices, number);
    std::copy(parts.front() + slice.begin, parts.front() + slice.end, sum.data() + slice.begin);
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const float* other = parts[i];
      for (std::size_t at = slice.begin; at < slice.end; ++at) sum[at] += other[at];
    }
    for (std::size_t at = slice.begin; at < slice.end; ++at) sum[at] *= scale;
  });
}

}  // namespace

Dense::Dense(std::vector<std::unique_ptr<Rule>> rules, const std::vector<std::size_t>& sizes) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    Group group{std::move(rules[i]), sizes[i], std::make_shared<Array<float>>(sizes[i]), {}};
    std::fill(group.values->data(), group.values->data() + group.size, 0.0f);
    group.state = Array<float>(group.rule->state_width(group.size));
    group.rule->start(group.state.data(), group.size);
    groups_.push_back(std::move(group));
  }
}

void Dense::start(std::size_t index, const float* values) {
  auto fresh = copy_of(values, groups_[index].size);
  const std::lock_guard<std::mutex> lock(mutex_);
  Group& group = groups_[index];
  group.values = std::move(fresh);
  group.rule->start(group.state.data(), group.size);
}

void Dense::restore(std::size_t index, const float* values, const float* state) {
  auto fresh = copy_of(values, groups_[index].size);
  const std::lock_guard<std::mutex> lock(mutex_);
  Group& group = groups_[index];
  group.values = std::move(fresh);
  std::copy(state, state + group.state.size(), group.state.data());
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

std::size_t Dense::apply(const std::vector<Update>& updates, std::size_t num_pushes, bool skip_nonfinite) {
  std::size_t skipped = 0;
  Array<float> sum;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Update& update : updates) {
    Group& group = groups_[update.group];
    const float* grads = update.grads.front();
    if (num_pushes != 1) {
      sum = Array<float>(group.size);
      add_and_scale(sum, update.grads, static_cast<float>(1.0 / static_cast<double>(num_pushes)));
      grads = sum.data();
    }
    if (skip_nonfinite && !all_finite(grads, group.size)) {
      ++skipped;
      continue;
    }
    if (group.values.use_count() > 1) group.values = copy_of(group.values->data(), group.size);
    std::atomic_thread_fence(std::memory_order_acquire);  // after what the last reader has read
    group.rule->apply(group.values->data(), group.state.data(), grads, group.size, update.lr);
  }
  return skipped;
}

}  // namespace fleet::plane
