#include "rule/elementary.h"

#include <cstdint>
#include <cstring>

namespace fleet {

namespace {

constexpr double kLog2 = 0.693147180559945309417;
constexpr double kSqrt2 = 1.41421356237309504880;

std::uint64_t bits_of(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

double from_bits(std::uint64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

}  // namespace

// x = m * 2^e with m in [1/sqrt(2), sqrt(2)), and log m = 2 atanh(z) with z = (m - 1) / (m + 1), |z| < 0.1716: eleven
// terms of its series leave 1e-18.
double natural_log(double x) {
  const std::uint64_t bits = bits_of(x);
  auto exponent = static_cast<std::int64_t>(bits >> 52) - 1023;
  double m = from_bits((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
  if (m >= kSqrt2) {
    m *= 0.5;
    ++exponent;
  }
  const double z = (m - 1) / (m + 1);
  const double square = z * z;
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return static_cast<double>(exponent) * kLog2 + 2 * z * sum;
}

// x = k log 2 + r with |r| <= log(2) / 2: fourteen terms of the series of e^r leave 1e-17.
double exponential(double x) {
  const auto k = static_cast<std::int64_t>(x / kLog2 + (x < 0 ? -0.5 : 0.5));
  const double r = x - static_cast<double>(k) * kLog2;
  double sum = 1;
  for (int n = 13; n >= 1; --n) sum = 1 + sum * r / n;
  return sum * from_bits(static_cast<std::uint64_t>(k + 1023) << 52);
}

double power(double base, double exponent) {
  if (exponent == 0) return 1;
  if (!(base > 0 && base <= 3.5e38)) return base;
  return exponential(exponent * natural_log(base));
}

}  // namespace fleet
