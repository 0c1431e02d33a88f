#include "init/draws.h"
#include "init/initializer.h"

namespace fleet {

namespace {

// In [low, high] as floats: a draw stops short of the ends, its rounding may reach them.
class Uniform final : public Initializer {
 public:
  explicit Uniform(Arguments& args) : low_(args.required("low", kAny)), high_(args.required("high", kAny)) {
    args.require(low_ <= high_, "low must be <= high, got low " + plain(low_) + " and high " + plain(high_));
  }

  void fill(std::uint64_t seed, std::int64_t key, float* out, std::size_t width) const override {
    draw(seed, key, width, [&](std::size_t i, double u) { out[i] = static_cast<float>(low_ + (high_ - low_) * u); });
  }

 private:
  double low_, high_;
};

}  // namespace

std::unique_ptr<Initializer> make_uniform(Arguments& args) { return std::make_unique<Uniform>(args); }

}  // namespace fleet
