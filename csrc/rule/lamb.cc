#include <algorithm>
#include <cmath>

#include "rule/corrections.h"
#include "rule/norm.h"
#include "rule/rule.h"

namespace fleet {

namespace {

// LAMB, Adam whose step is scaled by the norms of the weights w and of its direction r, as in fleet.optim.Lamb:
//   r  = m / (sqrt(v) + eps) + weight_decay * w, with m and v those of Adam after their bias corrections
//   w' = w - lr * |w| / |r| * r, and 1 in place of |w| / |r| where either is zero
// State: the mean of gradients, the mean of their squares, then the count of steps.
class Lamb final : public Rule {
 public:
  explicit Lamb(Arguments& args)
      : lr_(args.number("lr", kNonNegative, 0.001)),
        beta1_(args.number("beta1", kFraction, 0.9)),
        beta2_(args.number("beta2", kFraction, 0.999)),
        eps_(static_cast<float>(args.number("eps", kNonNegative, 1e-6))),
        weight_decay_(static_cast<float>(args.number("weight_decay", kNonNegative, 0.01))),
        sign_(args.flag("maximize") ? -1.0f : 1.0f),
        mean_(beta1_, Corrections::Kind::kReciprocal),
        square_(beta2_, Corrections::Kind::kReciprocalRoot) {}

  std::size_t state_width(std::size_t width) const override { return 2 * width + 1; }
  void start(float* state, std::size_t width) const override { std::fill_n(state, state_width(width), 0.0f); }
  double lr() const override { return lr_; }

  void apply(float* values, float* state, const float* grads, std::size_t width, double lr) const override {
    float* const means = state;
    float* const squares = state + width;
    float& count = state[2 * width];
    count += 1;
    advance(means, squares, grads, width);
    const Direction direction{static_cast<float>(mean_.at_count(count)), static_cast<float>(square_.at_count(count)),
                              eps_, weight_decay_};
    const double weights = norm(values, width);
    const double size =
        std::sqrt(sum_of_squares(width, [=](std::size_t i) { return direction(values[i], means[i], squares[i]); }));
    const double trust = weights > 0 && size > 0 ? weights / size : 1.0;
    update(values, means, squares, width, finite_rate(lr * trust), direction);
  }

 private:
  // Computed twice, for its norm and for the step: a rule has no room to keep it in between.
  struct Direction {
    float mean_scale, root_scale, eps, weight_decay;

    float operator()(float value, float mean, float square) const {
      return mean_scale * mean / (std::sqrt(square) * root_scale + eps) + weight_decay * value;
    }
  };

  void advance(float* __restrict means, float* __restrict squares, const float* __restrict grads,
               std::size_t width) const {
    const float sign = sign_, beta1 = static_cast<float>(beta1_), beta2 = static_cast<float>(beta2_);
    const float share1 = static_cast<float>(1 - beta1_), share2 = static_cast<float>(1 - beta2_);
    for (std::size_t i = 0; i < width; ++i) {
      const float g = sign * grads[i];
      means[i] = beta1 * means[i] + share1 * g;
      squares[i] = beta2 * squares[i] + share2 * g * g;
    }
  }

  static void update(float* __restrict values, const float* __restrict means, const float* __restrict squares,
                     std::size_t width, float rate, const Direction direction) {
    for (std::size_t i = 0; i < width; ++i) values[i] -= rate * direction(values[i], means[i], squares[i]);
  }

  double lr_, beta1_, beta2_;
  float eps_, weight_decay_, sign_;
  Corrections mean_, square_;
};

}  // namespace

std::unique_ptr<Rule> make_lamb(Arguments& args) { return std::make_unique<Lamb>(args); }

}  // namespace fleet
