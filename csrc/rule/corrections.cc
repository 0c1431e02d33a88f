#include "rule/corrections.h"

#include <cmath>

namespace fleet {

namespace {

constexpr std::size_t kLargest = std::size_t{1} << 20;

double of_power(double power, Corrections::Kind kind) {
  const double correction = 1 - power;
  return 1 / (kind == Corrections::Kind::kReciprocal ? correction : std::sqrt(correction));
}

}  // namespace

Corrections::Corrections(double beta, Kind kind) : beta_(beta), kind_(kind) {
  for (double power = beta; static_cast<float>(1 - power) != 1.0f; power *= beta) {
    if (table_.size() == kLargest) {
      cut_ = true;
      break;
    }
    table_.push_back(of_power(power, kind));
  }
  table_.shrink_to_fit();
}

// By squaring: std::pow may differ in its last bit from one library to the next.
double Corrections::computed(std::size_t t) const {
  double power = 1, square = beta_;
  for (; t != 0; t >>= 1) {
    if (t & 1) power *= square;
    square *= square;
  }
  return of_power(power, kind_);
}

}  // namespace fleet
