#include "rule/rule.h"

namespace fleet {

namespace {

// Moves values towards those pushed, by the share lr: with 1 they are taken as they are. For running statistics, of
// which workers push what they have come to.
class Average final : public Rule {
 public:
  explicit Average(Arguments& args) : lr_(args.number("lr", kNonNegative, 1)) {}

  std::size_t state_width(std::size_t) const override { return 0; }
  void start(float*, std::size_t) const override {}
  void apply(float* values, float*, const float* pushed, std::size_t width, double lr) const override {
    move(values, pushed, width, static_cast<float>(lr));
  }
  double lr() const override { return lr_; }

 private:
  static void move(float* __restrict values, const float* __restrict pushed, std::size_t width, float lr) {
    for (std::size_t i = 0; i < width; ++i) values[i] = lr == 1 ? pushed[i] : values[i] + lr * (pushed[i] - values[i]);
  }

  double lr_;
};

}  // namespace

std::unique_ptr<Rule> make_average(Arguments& args) { return std::make_unique<Average>(args); }

}  // namespace fleet
