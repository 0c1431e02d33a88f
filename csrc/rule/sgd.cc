#include "rule/gradient.h"
#include "rule/rule.h"

namespace fleet {

namespace {

class Sgd final : public Rule {
 public:
  explicit Sgd(Arguments& args) : lr_(args.number("lr", kNonNegative, 0.001)), gradient_(Gradient::read(args)) {}

  std::size_t state_width(std::size_t) const override { return 0; }
  void start(float*, std::size_t) const override {}
  void apply(float* values, float*, const float* grads, std::size_t width, double lr) const override {
    update(values, grads, width, static_cast<float>(lr), gradient_);
  }
  double lr() const override { return lr_; }

 private:
  static void update(float* __restrict values, const float* __restrict grads, std::size_t width, float lr,
                     Gradient gradient) {
    for (std::size_t i = 0; i < width; ++i) values[i] -= lr * gradient(grads[i], values[i]);
  }

  double lr_;
  Gradient gradient_;
};

}  // namespace

std::unique_ptr<Rule> make_sgd(Arguments& args) { return std::make_unique<Sgd>(args); }

}  // namespace fleet
