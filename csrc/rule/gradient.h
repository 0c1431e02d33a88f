// The gradient that a rule sees: turned around to maximise, with the weights' pull to zero added.
#pragma once

#include "rule/args.h"

namespace fleet {

struct Gradient {
  float sign;   // 1, or -1 to maximise
  float decay;  // weight_decay

  static Gradient read(Arguments& args) {
    const double decay = args.number("weight_decay", kNonNegative, 0);
    return {args.flag("maximize") ? -1.0f : 1.0f, static_cast<float>(decay)};
  }

  // Without a branch, so that the loops stay vectors: times 1 and plus 0 are exact.
  float operator()(float grad, float value) const { return sign * grad + decay * value; }
};

}  // namespace fleet
