#include <algorithm>
#include <cmath>

#include "rule/gradient.h"
#include "rule/rule.h"

namespace fleet {

namespace {

// Adagrad that forgets: a mean of squares that fades by `decay`, in place of their sum. State: that mean.
class DecayedAdagrad final : public Rule {
 public:
  explicit DecayedAdagrad(Arguments& args)
      : lr_(args.number("lr", kNonNegative, 0.01)),
        decay_(args.number("decay", kFraction, 0.95)),
        eps_(static_cast<float>(args.number("eps", kNonNegative, 1e-6))),
        gradient_(Gradient::read(args)) {}

  std::size_t state_width(std::size_t width) const override { return width; }
  void start(float* state, std::size_t width) const override { std::fill_n(state, width, 0.0f); }
  double lr() const override { return lr_; }

  void apply(float* values, float* state, const float* grads, std::size_t width, double lr) const override {
    update(values, state, grads, width, static_cast<float>(lr), static_cast<float>(decay_),
           static_cast<float>(1 - decay_), eps_, gradient_);
  }

 private:
  static void update(float* __restrict values, float* __restrict squares, const float* __restrict grads,
                     std::size_t width, float lr, float decay, float share, float eps, Gradient gradient) {
    for (std::size_t i = 0; i < width; ++i) {
      const float g = gradient(grads[i], values[i]);
      squares[i] = decay * squares[i] + share * g * g;
      values[i] -= lr * g / (std::sqrt(squares[i]) + eps);
    }
  }

  double lr_, decay_;
  float eps_;
  Gradient gradient_;
};

}  // namespace

std::unique_ptr<Rule> make_decayed_adagrad(Arguments& args) { return std::make_unique<DecayedAdagrad>(args); }

}  // namespace fleet
