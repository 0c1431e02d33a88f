#include <algorithm>
#include <cmath>

#include "rule/adagrad_args.h"
#include "rule/rule.h"

namespace fleet {

namespace {

// State: the sum of squares of each element, and with lr_decay the count of steps.
class Adagrad final : public Rule {
 public:
  explicit Adagrad(Arguments& args) : args_(AdagradArgs::read(args)) {}

  std::size_t state_width(std::size_t width) const override { return width + args_.counts(); }
  double lr() const override { return args_.lr; }
  bool slows_down() const override { return true; }

  void start(float* state, std::size_t width) const override {
    std::fill_n(state, width, static_cast<float>(args_.start));
    if (args_.counts()) state[width] = 0;
  }

  void apply(float* values, float* state, const float* grads, std::size_t width, double lr) const override {
    update(values, state, grads, width, args_.rate(lr, state + width), args_.eps, args_.gradient);
  }

 private:
  static void update(float* __restrict values, float* __restrict sums, const float* __restrict grads, std::size_t width,
                     float lr, float eps, Gradient gradient) {
    for (std::size_t i = 0; i < width; ++i) {
      const float g = gradient(grads[i], values[i]);
      const float sum = sums[i] + g * g;
      sums[i] = sum;
      values[i] -= lr * g / (std::sqrt(sum) + eps);
    }
  }

  AdagradArgs args_;
};

}  // namespace

std::unique_ptr<Rule> make_adagrad(Arguments& args) { return std::make_unique<Adagrad>(args); }

}  // namespace fleet
