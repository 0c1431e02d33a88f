#include <algorithm>
#include <cmath>

#include "rule/corrections.h"
#include "rule/gradient.h"
#include "rule/rule.h"

namespace fleet {

namespace {

// torch.optim.Adamax: Adam over the largest gradient, which fades by beta2, in place of the root of their squares.
// State: the mean of gradients, that largest size, then the count of steps.
class Adamax final : public Rule {
 public:
  explicit Adamax(Arguments& args)
      : lr_(args.number("lr", kNonNegative, 0.002)),
        beta1_(args.number("beta1", kFraction, 0.9)),
        beta2_(args.number("beta2", kFraction, 0.999)),
        eps_(static_cast<float>(args.number("eps", kNonNegative, 1e-8))),
        gradient_(Gradient::read(args)),
        mean_(beta1_, Corrections::Kind::kReciprocal) {}

  std::size_t state_width(std::size_t width) const override { return 2 * width + 1; }
  void start(float* state, std::size_t width) const override { std::fill_n(state, state_width(width), 0.0f); }
  double lr() const override { return lr_; }

  void apply(float* values, float* state, const float* grads, std::size_t width, double lr) const override {
    float& count = state[2 * width];
    count += 1;
    const Step step{static_cast<float>(lr * mean_.at_count(count)),
                    static_cast<float>(beta1_),
                    static_cast<float>(1 - beta1_),
                    static_cast<float>(beta2_),
                    eps_,
                    gradient_};
    update(values, state, state + width, grads, width, step);
  }

 private:
  struct Step {
    float rate, beta1, share1, beta2, eps;
    Gradient gradient;
  };

  static void update(float* __restrict values, float* __restrict means, float* __restrict sizes,
                     const float* __restrict grads, std::size_t width, const Step step) {
    for (std::size_t i = 0; i < width; ++i) {
      const float g = step.gradient(grads[i], values[i]);
      const float faded = step.beta2 * sizes[i];
      const float size = std::fabs(g) + step.eps;
      means[i] = step.beta1 * means[i] + step.share1 * g;
      sizes[i] = faded < size ? size : faded;
      values[i] -= step.rate * means[i] / sizes[i];
    }
  }

  double lr_, beta1_, beta2_;
  float eps_;
  Gradient gradient_;
  Corrections mean_;
};

}  // namespace

std::unique_ptr<Rule> make_adamax(Arguments& args) { return std::make_unique<Adamax>(args); }

}  // namespace fleet
