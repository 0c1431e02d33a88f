#include <algorithm>

#include "init/initializer.h"

namespace fleet {

namespace {

class Constant final : public Initializer {
 public:
  explicit Constant(Arguments& args) : value_(static_cast<float>(args.number("value", kAny, 0))) {}

  void fill(std::uint64_t, std::int64_t, float* out, std::size_t width) const override {
    std::fill_n(out, width, value_);
  }

 private:
  float value_;
};

}  // namespace

std::unique_ptr<Initializer> make_constant(Arguments& args) { return std::make_unique<Constant>(args); }

}  // namespace fleet
