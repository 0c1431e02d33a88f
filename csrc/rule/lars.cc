#include <algorithm>

#include "rule/gradient.h"
#include "rule/norm.h"
#include "rule/rule.h"

namespace fleet {

namespace {

// LARS, momentum whose rate is set by the norms of the weights w and of the gradient g, as in fleet.optim.Lars:
//   rate = lr * coeff * |w| / (|g| + weight_decay * |w| + eps), and lr where |w| or |g| is zero
//   v'   = momentum * v + rate * (g + weight_decay * w)
//   w'   = w - v', or with nesterov w - (rate * (g + weight_decay * w) + momentum * v')
// State: v.
class Lars final : public Rule {
 public:
  explicit Lars(Arguments& args)
      : lr_(args.required("lr", kNonNegative)),
        momentum_(static_cast<float>(args.number("momentum", kNonNegative, 0.9))),
        coeff_(args.number("coeff", kNonNegative, 0.001)),
        weight_decay_(args.number("weight_decay", kNonNegative, 0.0005)),
        eps_(args.number("eps", kNonNegative, 0)),
        nesterov_(args.flag("nesterov")),
        gradient_{args.flag("maximize") ? -1.0f : 1.0f, static_cast<float>(weight_decay_)} {}

  std::size_t state_width(std::size_t width) const override { return width; }
  void start(float* state, std::size_t width) const override { std::fill_n(state, width, 0.0f); }
  double lr() const override { return lr_; }

  void apply(float* values, float* state, const float* grads, std::size_t width, double lr) const override {
    const float rate = finite_rate(rate_of(norm(values, width), norm(grads, width), lr));
    if (nesterov_) {
      update<true>(values, state, grads, width, rate, momentum_, gradient_);
    } else {
      update<false>(values, state, grads, width, rate, momentum_, gradient_);
    }
  }

 private:
  double rate_of(double weights, double grads, double lr) const {
    if (!(weights > 0 && grads > 0)) return lr;
    return lr * coeff_ * weights / (grads + weight_decay_ * weights + eps_);
  }

  template <bool kNesterov>
  static void update(float* __restrict values, float* __restrict velocity, const float* __restrict grads,
                     std::size_t width, float rate, float momentum, Gradient gradient) {
    for (std::size_t i = 0; i < width; ++i) {
      const float step = rate * gradient(grads[i], values[i]);
      const float v = momentum * velocity[i] + step;
      velocity[i] = v;
      values[i] -= kNesterov ? step + momentum * v : v;
    }
  }

  double lr_;
  float momentum_;
  double coeff_, weight_decay_, eps_;
  bool nesterov_;
  Gradient gradient_;
};

}  // namespace

std::unique_ptr<Rule> make_lars(Arguments& args) { return std::make_unique<Lars>(args); }

}  // namespace fleet
