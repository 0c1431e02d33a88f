#include <algorithm>

#include "init/draws.h"
#include "init/initializer.h"
#include "init/quantile.h"

namespace fleet {

namespace {

constexpr double kBelow = 0.022750131948179209;  // the part of a normal distribution below -2

// A normal distribution without what lies more than 2 std from its mean. `std` is that of the whole one; what is left
// has 0.8796 of it.
class TruncatedNormal final : public Initializer {
 public:
  explicit TruncatedNormal(Arguments& args)
      : mean_(args.number("mean", kAny, 0)), std_(args.number("std", kNonNegative, 1)) {}

  void fill(std::uint64_t seed, std::int64_t key, float* out, std::size_t width) const override {
    draw(seed, key, width, [&](std::size_t i, double u) {
      const double x = normal_quantile(kBelow + u * (1 - 2 * kBelow));
      out[i] = static_cast<float>(mean_ + std_ * std::clamp(x, -2.0, 2.0));
    });
  }

 private:
  double mean_, std_;
};

}  // namespace

std::unique_ptr<Initializer> make_truncated_normal(Arguments& args) { return std::make_unique<TruncatedNormal>(args); }

}  // namespace fleet
