#include "table/half.h"

#include <cmath>
#include <limits>
#include <random>

#include "check.h"

namespace {

using fleet::Bfloat16;
using fleet::Float16;
using fleet::float_of;

struct Float16Form {
  using Half = Float16;
  static constexpr int kFraction = 10, kBias = 15;
  static constexpr std::uint32_t kInf = 0x7c00;
};

struct Bfloat16Form {
  using Half = Bfloat16;
  static constexpr int kFraction = 7, kBias = 127;
  static constexpr std::uint32_t kInf = 0x7f80;
};

// The number that bits without a sign mean; that of infinity is where the next number would be.
template <class Form>
double value_of(std::uint32_t bits) {
  const auto exponent = static_cast<int>(bits >> Form::kFraction);
  const double fraction = bits & ((1u << Form::kFraction) - 1);
  const double one = 1u << Form::kFraction;
  return exponent == 0 ? std::ldexp(fraction, 1 - Form::kBias - Form::kFraction)
                       : std::ldexp(one + fraction, exponent - Form::kBias - Form::kFraction);
}

// The nearest, ties to even, by bisection over all numbers there are.
template <class Form>
std::uint16_t nearest(float value) {
  const double size = std::fabs(static_cast<double>(value));
  const std::uint32_t sign = std::signbit(value) ? 0x8000u : 0u;
  std::uint32_t low = 0, high = Form::kInf;
  if (size >= value_of<Form>(high)) return static_cast<std::uint16_t>(sign | high);
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (value_of<Form>(middle) <= size ? low : high) = middle;
  }
  const double below = size - value_of<Form>(low), above = value_of<Form>(high) - size;
  const std::uint32_t bits = below < above || (below == above && low % 2 == 0) ? low : high;
  return static_cast<std::uint16_t>(sign | bits);
}

template <class Form>
void check_patterns() {
  using Half = typename Form::Half;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = Half::load(static_cast<std::uint16_t>(bits));
    const std::uint32_t size = bits & 0x7fffu;
    CHECK(std::signbit(value) == (bits >= 0x8000u));
    const std::uint16_t back = Half::store(value);
    if (size > Form::kInf) {
      CHECK(std::isnan(value) && std::isnan(Half::load(back)) && back >> 15 == bits >> 15);
      continue;
    }
    CHECK(back == bits);
    CHECK(size == Form::kInf ? std::isinf(value) : std::fabs(static_cast<double>(value)) == value_of<Form>(size));
  }
}

template <class Form>
void check_rounding() {
  using Half = typename Form::Half;
  const auto check = [](float value) {
    CHECK(Half::store(value) == nearest<Form>(value));
    CHECK(Half::store(-value) == nearest<Form>(-value));
  };
  for (std::uint32_t bits = 0; bits < Form::kInf; ++bits) {
    // Halfway to the next one, and just beside.
    const auto middle = static_cast<float>((value_of<Form>(bits) + value_of<Form>(bits + 1)) / 2);
    check(middle);
    check(std::nextafterf(middle, 0));
    check(std::nextafterf(middle, std::numeric_limits<float>::infinity()));
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 300000; ++i) {
    const float value = float_of(static_cast<std::uint32_t>(random()));
    if (!std::isnan(value)) check(value);
  }
  for (const float value : {0.0f, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::min(),
                            std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity()}) {
    check(value);
  }
}

template <class Half>
void check_within() {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100000; ++i) {
    const float bound = i < 2 ? (i == 0 ? 1e-30f : -1e-30f) : float_of(static_cast<std::uint32_t>(random()));
    if (std::isnan(bound)) continue;
    const float below = fleet::within<Half>(bound, true), above = fleet::within<Half>(bound, false);
    CHECK(below <= bound && bound <= above);
    CHECK(Half::load(Half::store(below)) == below && Half::load(Half::store(above)) == above);
    const float rounded = Half::load(Half::store(bound));
    CHECK(rounded == below || rounded == above);
  }
}

}  // namespace

TEST(half_patterns) {
  check_patterns<Float16Form>();
  check_patterns<Bfloat16Form>();
}

TEST(half_rounding) {
  check_rounding<Float16Form>();
  check_rounding<Bfloat16Form>();
}

TEST(half_bounds) {
  check_within<Float16>();
  check_within<Bfloat16>();
}
