#include <algorithm>

#include "rule/gradient.h"
#include "rule/rule.h"

namespace fleet {

namespace {

// torch.optim.SGD with momentum. State: the buffer, and with dampening a flag that is 1 once the buffer has begun: the
// first gradient enters undamped. Without dampening a buffer of zeros comes to the same.
class Momentum final : public Rule {
 public:
  explicit Momentum(Arguments& args)
      : lr_(args.required("lr", kNonNegative)),
        momentum_(static_cast<float>(args.required("momentum", kNonNegative))),
        dampening_(args.number("dampening", kAny, 0)),
        nesterov_(args.flag("nesterov")),
        gradient_(Gradient::read(args)) {
    args.require(!nesterov_ || momentum_ > 0, "nesterov needs momentum > 0, got momentum " + plain(momentum_));
    args.require(!nesterov_ || dampening_ == 0, "nesterov needs dampening 0, got dampening " + plain(dampening_));
  }

  std::size_t state_width(std::size_t width) const override { return width + (dampening_ != 0); }
  void start(float* state, std::size_t width) const override { std::fill_n(state, state_width(width), 0.0f); }
  double lr() const override { return lr_; }

  void apply(float* values, float* state, const float* grads, std::size_t width, double lr) const override {
    auto share = static_cast<float>(1 - dampening_);
    if (dampening_ != 0) {
      float& begun = state[width];
      if (begun == 0) share = 1;
      begun = 1;
    }
    const auto rate = static_cast<float>(lr);
    if (nesterov_) {
      update<true>(values, state, grads, width, rate, share, momentum_, gradient_);
    } else {
      update<false>(values, state, grads, width, rate, share, momentum_, gradient_);
    }
  }

 private:
  template <bool kNesterov>
  static void update(float* __restrict values, float* __restrict buffer, const float* __restrict grads,
                     std::size_t width, float lr, float share, float momentum, Gradient gradient) {
    for (std::size_t i = 0; i < width; ++i) {
      const float g = gradient(grads[i], values[i]);
      const float b = momentum * buffer[i] + share * g;
      buffer[i] = b;
      values[i] -= lr * (kNesterov ? g + momentum * b : b);
    }
  }

  double lr_;
  float momentum_;
  double dampening_;
  bool nesterov_;
  Gradient gradient_;
};

}  // namespace

std::unique_ptr<Rule> make_momentum(Arguments& args) { return std::make_unique<Momentum>(args); }

}  // namespace fleet
