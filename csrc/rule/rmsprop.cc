#include <algorithm>
#include <cmath>

#include "rule/gradient.h"
#include "rule/rule.h"

namespace fleet {

namespace {

// torch.optim.RMSprop, and decayed Adagrad, which is RMSprop by other names, without momentum and never centered.
// State: the mean of squares, with momentum its buffer, and if centered the mean of gradients.
class RmsProp final : public Rule {
 public:
  RmsProp(Arguments& args, double alpha, double eps, double momentum, bool centered)
      : lr_(args.number("lr", kNonNegative, 0.01)),
        alpha_(alpha),
        eps_(static_cast<float>(eps)),
        momentum_(static_cast<float>(momentum)),
        centered_(centered),
        gradient_(Gradient::read(args)) {}

  std::size_t state_width(std::size_t width) const override { return (1 + (momentum_ > 0) + centered_) * width; }
  void start(float* state, std::size_t width) const override { std::fill_n(state, state_width(width), 0.0f); }
  double lr() const override { return lr_; }

  void apply(float* values, float* state, const float* grads, std::size_t width, double lr) const override {
    const Step step{
        static_cast<float>(lr), static_cast<float>(alpha_), static_cast<float>(1 - alpha_), eps_, momentum_, gradient_};
    const bool moves = momentum_ > 0;
    float* const buffer = moves ? state + width : nullptr;
    float* const means = centered_ ? state + (1 + moves) * width : nullptr;
    if (moves && centered_) {
      update<true, true>(values, state, buffer, means, grads, width, step);
    } else if (moves) {
      update<true, false>(values, state, buffer, means, grads, width, step);
    } else if (centered_) {
      update<false, true>(values, state, buffer, means, grads, width, step);
    } else {
      update<false, false>(values, state, buffer, means, grads, width, step);
    }
  }

 private:
  struct Step {
    float lr, alpha, share, eps, momentum;
    Gradient gradient;
  };

  template <bool kMomentum, bool kCentered>
  static void update(float* __restrict values, float* __restrict squares, float* __restrict buffer,
                     float* __restrict means, const float* __restrict grads, std::size_t width, const Step step) {
    for (std::size_t i = 0; i < width; ++i) {
      const float g = step.gradient(grads[i], values[i]);
      squares[i] = step.alpha * squares[i] + step.share * g * g;
      float variance = squares[i];
      if constexpr (kCentered) {
        means[i] = means[i] + step.share * (g - means[i]);
        variance -= means[i] * means[i];
        variance = variance < 0 ? 0 : variance;  // by rounding, where a gradient hardly changes; torch makes it NaN
      }
      const float root = std::sqrt(variance) + step.eps;
      if constexpr (kMomentum) {
        buffer[i] = step.momentum * buffer[i] + g / root;
        values[i] -= step.lr * buffer[i];
      } else {
        values[i] -= step.lr * g / root;
      }
    }
  }

  double lr_, alpha_;
  float eps_, momentum_;
  bool centered_;
  Gradient gradient_;
};

}  // namespace

std::unique_ptr<Rule> make_rmsprop(Arguments& args) {
  const double alpha = args.number("alpha", kFraction, 0.99);
  const double eps = args.number("eps", kNonNegative, 1e-8);
  const double momentum = args.number("momentum", kNonNegative, 0);
  return std::make_unique<RmsProp>(args, alpha, eps, momentum, args.flag("centered"));
}

std::unique_ptr<Rule> make_decayed_adagrad(Arguments& args) {
  const double decay = args.number("decay", kFraction, 0.95);
  const double eps = args.number("eps", kNonNegative, 1e-6);
  return std::make_unique<RmsProp>(args, decay, eps, 0.0, false);
}

}  // namespace fleet
