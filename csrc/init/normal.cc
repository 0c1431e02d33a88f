#include "init/draws.h"
#include "init/initializer.h"
#include "init/quantile.h"

namespace fleet {

namespace {

class Normal final : public Initializer {
 public:
  explicit Normal(Arguments& args) : mean_(args.number("mean", kAny, 0)), std_(args.number("std", kNonNegative, 1)) {}

  void fill(std::uint64_t seed, std::int64_t key, float* out, std::size_t width) const override {
    draw(seed, key, width,
         [&](std::size_t i, double u) { out[i] = static_cast<float>(mean_ + std_ * normal_quantile(u)); });
  }

 private:
  double mean_, std_;
};

}  // namespace

std::unique_ptr<Initializer> make_normal(Arguments& args) { return std::make_unique<Normal>(args); }

}  // namespace fleet
