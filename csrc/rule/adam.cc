#include <algorithm>
#include <cmath>

#include "rule/corrections.h"
#include "rule/gradient.h"
#include "rule/rule.h"

namespace fleet {

namespace {

// torch.optim.Adam and AdamW. State: the mean of gradients, the mean of their squares, with amsgrad the largest of the
// latter, then the count of steps.
class Adam final : public Rule {
 public:
  // The weights decay by a factor if `decoupled`, else through the gradient.
  Adam(Arguments& args, double weight_decay, bool decoupled)
      : lr_(args.number("lr", kNonNegative, 0.001)),
        beta1_(args.number("beta1", kFraction, 0.9)),
        beta2_(args.number("beta2", kFraction, 0.999)),
        eps_(static_cast<float>(args.number("eps", kNonNegative, 1e-8))),
        weight_decay_(args.number("weight_decay", kNonNegative, weight_decay)),
        amsgrad_(args.flag("amsgrad")),
        decoupled_(args.flag("decoupled_weight_decay", decoupled)),
        gradient_{args.flag("maximize") ? -1.0f : 1.0f, decoupled_ ? 0.0f : static_cast<float>(weight_decay_)},
        mean_(beta1_, Corrections::Kind::kReciprocal),
        square_(beta2_, Corrections::Kind::kReciprocalRoot) {
    args.require(decoupled_ || !decoupled, "decoupled_weight_decay must be 1, got 0; rule adam is the one without");
  }

  std::size_t state_width(std::size_t width) const override { return (amsgrad_ ? 3 : 2) * width + 1; }
  void start(float* state, std::size_t width) const override { std::fill_n(state, state_width(width), 0.0f); }
  double lr() const override { return lr_; }

  void apply(float* values, float* state, const float* grads, std::size_t width, double lr) const override {
    float& count = state[state_width(width) - 1];
    count += 1;
    const Step step{static_cast<float>(lr * mean_.at_count(count)),
                    static_cast<float>(square_.at_count(count)),
                    static_cast<float>(decoupled_ ? 1 - lr * weight_decay_ : 1.0),
                    static_cast<float>(1 - beta1_),
                    static_cast<float>(beta2_),
                    static_cast<float>(1 - beta2_),
                    eps_,
                    gradient_};
    float* const means = state;
    float* const squares = state + width;
    if (amsgrad_) {
      update_amsgrad(values, means, squares, state + 2 * width, grads, width, step);
    } else {
      update(values, means, squares, grads, width, step);
    }
  }

 private:
  struct Step {
    float rate, root_scale, keep, share1, beta2, share2, eps;
    Gradient gradient;

    float mean(float mean, float g) const { return mean + share1 * (g - mean); }
    float square(float square, float g) const { return beta2 * square + share2 * g * g; }
    float value(float value, float mean, float square) const {
      return keep * value - rate * mean / (std::sqrt(square) * root_scale + eps);
    }
  };

  static void update(float* __restrict values, float* __restrict means, float* __restrict squares,
                     const float* __restrict grads, std::size_t width, const Step step) {
    for (std::size_t i = 0; i < width; ++i) {
      const float g = step.gradient(grads[i], values[i]);
      means[i] = step.mean(means[i], g);
      squares[i] = step.square(squares[i], g);
      values[i] = step.value(values[i], means[i], squares[i]);
    }
  }

  static void update_amsgrad(float* __restrict values, float* __restrict means, float* __restrict squares,
                             float* __restrict largest, const float* __restrict grads, std::size_t width,
                             const Step step) {
    for (std::size_t i = 0; i < width; ++i) {
      const float g = step.gradient(grads[i], values[i]);
      means[i] = step.mean(means[i], g);
      squares[i] = step.square(squares[i], g);
      largest[i] = largest[i] < squares[i] ? squares[i] : largest[i];
      values[i] = step.value(values[i], means[i], largest[i]);
    }
  }

  double lr_, beta1_, beta2_;
  float eps_;
  double weight_decay_;
  bool amsgrad_, decoupled_;
  Gradient gradient_;
  Corrections mean_, square_;
};

}  // namespace

std::unique_ptr<Rule> make_adam(Arguments& args) { return std::make_unique<Adam>(args, 0.0, false); }
std::unique_ptr<Rule> make_adamw(Arguments& args) { return std::make_unique<Adam>(args, 0.01, true); }

}  // namespace fleet
