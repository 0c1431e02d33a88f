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

// All draws of a value: it comes to one of its two neighbours each time, and to itself in the mean.
template <class Form>
void check_draws(float value) {
  using Half = typename Form::Half;
  const float below = fleet::within<Half>(value, true), above = fleet::within<Half>(value, false);
  double sum = 0;
  for (std::uint32_t draw = 0; draw < 65536; ++draw) {
    const float rounded = Half::load(Half::store(value, static_cast<std::uint16_t>(draw)));
    CHECK(rounded == below || rounded == above);
    sum += rounded;
  }
  CHECK(sum == 65536.0 * static_cast<double>(value));
}

template <class Form>
void check_by_chance(float unit) {
  using Half = typename Form::Half;
  std::mt19937_64 random(6);
  for (int i = 0; i < 40; ++i) {
    // Normal numbers of all sizes, and multiples of a 65,536th of the smallest number.
    const auto bits = static_cast<std::uint32_t>(random());
    const auto exponent = static_cast<int>(random() % (2 * Form::kBias - 1)) - Form::kBias + 1;
    const float value = std::ldexp(1.0f + static_cast<float>(bits & 0x7fffffu) * 0x1p-23f, exponent);
    const float small = static_cast<float>(bits % (1u << 20)) * unit;
    for (const float one : {value, -value, small, -small}) {
      if (std::fabs(one) <= Half::load(Form::kInf - 1)) check_draws<Form>(one);
    }
  }
  // A number that can be stored stays: also the largest, zeros of both signs, and infinity.
  for (std::uint32_t stored = 0; stored < 65536; ++stored) {
    if ((stored & 0x7fffu) > Form::kInf) continue;
    for (const std::uint16_t draw : {0, 1, 32768, 65535}) {
      CHECK(Half::store(Half::load(static_cast<std::uint16_t>(stored)), draw) == stored);
    }
  }
  // Beyond the largest number chance has no say.
  for (int i = 0; i < 100000; ++i) {
    const float value = float_of(static_cast<std::uint32_t>(random()));
    if (std::isnan(value) || std::fabs(value) > Half::load(Form::kInf - 1)) {
      CHECK(Half::store(value, static_cast<std::uint16_t>(random())) == Half::store(value));
    }
  }
  const double largest = value_of<Form>(Form::kInf - 1), next = value_of<Form>(Form::kInf);
  for (const double share : {0.001, 0.25, 0.499, 0.5, 0.75, 1.0, 1.5}) {
    const auto value = static_cast<float>(largest + (next - largest) * share);
    for (const std::uint16_t draw : {0, 65535}) {
      CHECK(Half::store(value, draw) == Half::store(value) && Half::store(-value, draw) == Half::store(-value));
    }
  }
}

}  // namespace

TEST(half_by_chance) {
  check_by_chance<Float16Form>(0x1p-40f);
  check_by_chance<Bfloat16Form>(0x1p-149f);
}

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
