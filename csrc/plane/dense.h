// The dense parameters of one server: a flat buffer and a rule for each optimizer group, all under one lock.
//
// A group is made of parts, the blocks of its parameters. A part may sit a step out, as a parameter does that had no
// part in the loss: its values and its state stay as they are. From then on each part has its own scalars, such as a
// count of steps, and the state of the group ends with those of all parts, in their order, instead of with one for all.
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
    std::vector<std::size_t> absent = {};  // the parts that sit this step out, ascending
    float factor = 1;                      // by which the mean is multiplied
  };

  // Each group is given by the sizes of its parts. The groups are zeros until they are started.
  Dense(std::vector<std::unique_ptr<Rule>> rules, const std::vector<std::vector<std::size_t>>& parts);

  std::size_t num_groups() const { return groups_.size(); }
  std::size_t size(std::size_t group) const { return groups_[group].size; }
  std::size_t num_parts(std::size_t group) const { return groups_[group].ends.size(); }
  // Floats of state while all parts share their scalars, and where each has its own.
  std::size_t shared_width(std::size_t group) const;
  std::size_t split_width(std::size_t group) const;

  // First values; the state of the rule begins anew.
  void start(std::size_t group, const float* values);
  // Values and state as they were saved; the state has one of the two widths.
  void restore(std::size_t group, const float* values, const float* state, std::size_t width);
  // Of one moment, for all groups.
  std::vector<Values> read() const;
  // The same with a copy of each rule's state.
  std::vector<std::pair<Values, Array<float>>> snapshot() const;

  // The mean, over `num_pushes`, of some gradients of `size` values.
  static Array<float> mean(const Update& update, std::size_t size, std::size_t num_pushes);

  // Applies the mean, over `num_pushes`, of each group's gradients; all groups in one moment. With `skip_nonfinite` a
  // group with a NaN or an Inf stays as it is; the number of those.
  std::size_t apply(const std::vector<Update>& updates, std::size_t num_pushes, bool skip_nonfinite);

 private:
  struct Group {
    std::unique_ptr<Rule> rule;
    std::size_t size;
    std::vector<std::size_t> ends;  // of its parts
    std::size_t arrays, scalars;    // of its rule's state
    std::shared_ptr<Array<float>> values;
    Array<float> state;

    std::size_t shared_width() const { return arrays * size + scalars; }
    std::size_t split_width() const { return arrays * size + scalars * ends.size(); }
    bool is_split() const { return state.size() != shared_width(); }
    void split();
    // One update of the elements of some parts that lie together and have the same scalars: those of the first count.
    void apply_run(std::size_t first, std::size_t last, const float* grads, double lr);
    void apply_parts(const std::vector<std::size_t>& absent, const float* grads, double lr);
  };

  mutable std::mutex mutex_;
  std::vector<Group> groups_;
};

}  // namespace fleet::plane
