// What adagrad and adagrad_row share: their arguments, and the rate that falls with the row's count of steps.
#pragma once

#include "rule/gradient.h"

namespace fleet {

struct AdagradArgs {
  double lr, lr_decay, start;
  float eps;
  Gradient gradient;

  static AdagradArgs read(Arguments& args) {
    const double lr = args.number("lr", kNonNegative, 0.01);
    const double lr_decay = args.number("lr_decay", kNonNegative, 0);
    const double start = args.number("initial_accumulator_value", kNonNegative, 0);
    const auto eps = static_cast<float>(args.number("eps", kNonNegative, 1e-10));
    return {lr, lr_decay, start, eps, Gradient::read(args)};
  }

  bool counts() const { return lr_decay != 0; }

  // `count` is read only if counts(): the steps that the row has made, one more afterwards.
  float rate(double lr_now, float* count) const {
    if (!counts()) return static_cast<float>(lr_now);
    const double done = *count;
    *count += 1;
    return static_cast<float>(lr_now / (1 + done * lr_decay));
  }
};

}  // namespace fleet
