#include <algorithm>
#include <cmath>
#include <limits>

#include "rule/elementary.h"
#include "rule/gradient.h"
#include "rule/rule.h"

namespace fleet {

namespace {

constexpr Range kPower{"in [-1, 0]", [](double x) { return x >= -1 && x <= 0; }};
constexpr float kTiny = std::numeric_limits<float>::min();  // 0 / kTiny is the 0 that 0 / 0 should be

// FTRL-Proximal of McMahan et al., per element, with p(n) = n^-lr_power, which is sqrt(n) unless told otherwise:
//   n'    = n + g^2
//   z'    = z + g - (p(n') - p(n)) / lr * value
//   value = -shrink(z', l1) / (p(n') / lr + 2 l2)
// where shrink takes l1 off the size of z and stops at 0. State: z, then n. The formula divides by lr; at a rate of 0,
// as a warm-up may begin with, the row stays as it is.
class Ftrl final : public Rule {
 public:
  explicit Ftrl(Arguments& args)
      : lr_(args.number("lr", kNonNegative, 0.001)),
        l1_(static_cast<float>(args.number("l1", kNonNegative, 0))),
        l2_(static_cast<float>(args.number("l2", kNonNegative, 0))),
        power_(-args.number("lr_power", kPower, -0.5)),
        start_(static_cast<float>(args.number("initial_accumulator_value", kNonNegative, 0.1))),
        gradient_(Gradient::read(args)) {}

  std::size_t state_width(std::size_t width) const override { return 2 * width; }
  double lr() const override { return lr_; }

  void start(float* state, std::size_t width) const override {
    std::fill_n(state, width, 0.0f);
    std::fill_n(state + width, width, start_);
  }

  void apply(float* values, float* state, const float* grads, std::size_t width, double lr) const override {
    if (lr < kTiny) return;
    if (power_ == 0.5) {
      update(values, state, state + width, grads, width, static_cast<float>(1 / lr), l1_, 2 * l2_, gradient_);
    } else {
      update_by_power(values, state, state + width, grads, width, 1 / lr);
    }
  }

 private:
  // -shrink(z), and never a negative zero.
  static float shrunk(float z, float l1) {
    const float low = z < -l1 ? -l1 : z;
    return (low > l1 ? l1 : low) - z;
  }

  // p(n') - p(n) would lose its digits where n is large; (n' - n) / (p(n') + p(n)) keeps them.
  static void update(float* __restrict values, float* __restrict z, float* __restrict n, const float* __restrict grads,
                     std::size_t width, float inverse_lr, float l1, float twice_l2, Gradient gradient) {
    for (std::size_t i = 0; i < width; ++i) {
      const float g = gradient(grads[i], values[i]);
      const float before = n[i];
      const float after = before + g * g;
      const float root = std::sqrt(after);
      const float growth = (after - before) / (root + std::sqrt(before) + kTiny);
      n[i] = after;
      z[i] += g - growth * inverse_lr * values[i];
      values[i] = shrunk(z[i], l1) / (root * inverse_lr + twice_l2 + kTiny);
    }
  }

  // Any other power is rare, and slow.
  void update_by_power(float* values, float* z, float* n, const float* grads, std::size_t width,
                       double inverse_lr) const {
    for (std::size_t i = 0; i < width; ++i) {
      const float g = gradient_(grads[i], values[i]);
      const float after = n[i] + g * g;
      const double root = power(after, power_);
      const double growth = root - power(n[i], power_);
      n[i] = after;
      z[i] = static_cast<float>(z[i] + (g - growth * inverse_lr * values[i]));
      values[i] = static_cast<float>(shrunk(z[i], l1_) / (root * inverse_lr + 2.0 * l2_ + kTiny));
    }
  }

  double lr_;
  float l1_, l2_;
  double power_;
  float start_;
  Gradient gradient_;
};

}  // namespace

std::unique_ptr<Rule> make_ftrl(Arguments& args) { return std::make_unique<Ftrl>(args); }

}  // namespace fleet
