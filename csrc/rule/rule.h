// How a gradient changes a row: one small file for each rule, one line for each in rule.cc.
//
// A row is `width` values and beside them the rule's state: first its arrays of `width` floats, one after the other,
// then its scalars. So state_width(w) = arrays * w + scalars, and the state of a dense parameter can be cut by element:
// each piece takes its part of every array and a copy of the scalars. adagrad_row has scalars only.
//
// The elements of a row change each by itself, but for three rules: adagrad_row, lars and lamb measure the whole row. A
// dense buffer is one row to them, so a parameter under lars or lamb has to have a buffer of its own, and all of it.
//
// The formulas are those of torch.optim; counts of steps belong to the row, which advances only when it is pushed. A
// count is a float and stays at 2^24. The same input gives the same bits on every machine: only + - * / and sqrt.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "rule/args.h"

namespace fleet {

class Rule {
 public:
  virtual ~Rule() = default;

  // Floats of state beside `width` values.
  virtual std::size_t state_width(std::size_t width) const = 0;

  // Writes the state of a new row.
  virtual void start(float* state, std::size_t width) const = 0;

  // One update in place, at the rate `lr` >= 0. The three blocks must not overlap. Rows may be updated from several
  // threads at once, each row from one.
  virtual void apply(float* values, float* state, const float* grads, std::size_t width, double lr) const = 0;

  // The rate it was made with.
  virtual double lr() const = 0;

  // Whether a row moves ever less, by the root of what it has learned: many who each know a part of that go too far.
  virtual bool slows_down() const { return false; }
};

// Throws std::invalid_argument, in one line, for an unknown name and for an unknown, missing or bad argument.
std::unique_ptr<Rule> make_rule(const std::string& name, const Args& args);

// Every name that make_rule knows, sorted.
std::vector<std::string> rule_names();

}  // namespace fleet
