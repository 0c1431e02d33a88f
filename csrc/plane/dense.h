// The dense parameters of one server: a flat buffer and a rule for each optimizer group, all under one lock.
//
// Who reads gets the buffer itself, not a copy, and may keep it: an update that finds it kept makes a copy first. So an
// answer goes out from where the values lie, and never holds an update up.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "keys/array.h"
#include "rule/rule.h"

namespace fleet::plane {

class Dense {
 public:
  using Values = std::shared_ptr<const Array<float>>;

  // The gradients of one group in one step: those of each push that has some, in the order of the workers.
  struct Update {
    std::size_t group;
    double lr;
    std::vector<const float*> grads;
  };

  // The groups are zeros until they are started.
  Dense(std::vector<std::unique_ptr<Rule>> rules, const std::vector<std::size_t>& sizes);

  std::size_t num_groups() const { return groups_.size(); }
  std::size_t size(std::size_t group) const { return groups_[group].size; }
  const Rule& rule(std::size_t group) const { return *groups_[group].rule; }

  // First values; the state of the rule begins anew.
  void start(std::size_t group, const float* values);
  // Values and state as they were saved.
  void restore(std::size_t group, const float* values, const float* state);
  // Of one moment, for all groups.
  std::vector<Values> read() const;
  // The same with a copy of each rule's state.
  std::vector<std::pair<Values, Array<float>>> snapshot() const;

  // Applies the mean, over `num_pushes`, of each group's gradients; all groups in one moment. With `skip_nonfinite` a
  // group with a NaN or an Inf stays as it is; the number of those.
  std::size_t apply(const std::vector<Update>& updates, std::size_t num_pushes, bool skip_nonfinite);

 private:
  struct Group {
    std::unique_ptr<Rule> rule;
    std::size_t size;
    std::shared_ptr<Array<float>> values;
    Array<float> state;
  };

  mutable std::mutex mutex_;
  std::vector<Group> groups_;
};

}  // namespace fleet::plane
