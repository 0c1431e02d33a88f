#include <cmath>

#include "rule/adagrad_args.h"
#include "rule/norm.h"
#include "rule/rule.h"

namespace fleet {

namespace {

// Adagrad with one sum for a whole row, of the means of its squares: a row of 64 keeps 1 float of state, not 64.
// State: that sum, and with lr_decay the count of steps.
class AdagradRow final : public Rule {
 public:
  explicit AdagradRow(Arguments& args) : args_(AdagradArgs::read(args)) {}

  std::size_t state_width(std::size_t) const override { return 1 + args_.counts(); }
  double lr() const override { return args_.lr; }
  bool slows_down() const override { return true; }

  void start(float* state, std::size_t) const override {
    state[0] = static_cast<float>(args_.start);
    if (args_.counts()) state[1] = 0;
  }

  void apply(float* values, float* state, const float* grads, std::size_t width, double lr) const override {
    const float rate = args_.rate(lr, state + 1);
    if (width == 0) return;
    state[0] += static_cast<float>(squares(values, grads, width, args_.gradient) / static_cast<double>(width));
    update(values, grads, width, rate / (std::sqrt(state[0]) + args_.eps), args_.gradient);
  }

 private:
  static double squares(const float* values, const float* grads, std::size_t width, Gradient gradient) {
    return sum_of_squares(width, [=](std::size_t i) { return gradient(grads[i], values[i]); });
  }

  static void update(float* __restrict values, const float* __restrict grads, std::size_t width, float rate,
                     Gradient gradient) {
    for (std::size_t i = 0; i < width; ++i) values[i] -= rate * gradient(grads[i], values[i]);
  }

  AdagradArgs args_;
};

}  // namespace

std::unique_ptr<Rule> make_adagrad_row(Arguments& args) { return std::make_unique<AdagradRow>(args); }

}  // namespace fleet
