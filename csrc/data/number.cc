#include "data/number.h"

#include <locale.h>
#include <stdlib.h>
#if defined(__has_include)
#if __has_include(<xlocale.h>)
#include <xlocale.h>
#endif
#endif

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

namespace fleet::data {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The text is a number already: only its value is missing.
double slow_double(const char* first, const char* last) {
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  const std::string text(first, last);  // strtod wants its end marked
  return strtod_l(text.c_str(), nullptr, plain);
}

}  // namespace

Number read_int64(const char* first, const char* last, std::int64_t& value) {
  const bool is_negative = first != last && *first == '-';
  if (first != last && (*first == '-' || *first == '+')) ++first;
  if (first == last) return Number::kMalformed;
  const std::uint64_t most = is_negative ? std::uint64_t{1} << 63 : std::numeric_limits<std::uint64_t>::max();
  std::uint64_t sum = 0;
  bool fits = true;
  for (; first != last; ++first) {
    if (!is_digit(*first)) return Number::kMalformed;
    const auto digit = static_cast<std::uint64_t>(*first - '0');
    fits = fits && sum <= (most - digit) / 10;
    sum = sum * 10 + digit;
  }
  if (!fits) return Number::kOutOfRange;
  value = static_cast<std::int64_t>(is_negative ? 0 - sum : sum);
  return Number::kOk;
}

Number read_double(const char* first, const char* last, double& value) {
  // Powers of ten that a double holds exactly. A product or quotient of two exact numbers is rounded once, so the short
  // numbers of most files need no more than this.
  static constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                       1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  constexpr std::int64_t kLargestPower = 22;
  constexpr std::uint64_t kLargestExact = std::uint64_t{1} << 53;
  constexpr int kDigits = 18;  // as many always fit

  const char* p = first;
  const bool is_negative = p != last && *p == '-';
  if (p != last && (*p == '-' || *p == '+')) ++p;
  std::uint64_t mantissa = 0;
  std::int64_t exponent = 0;
  int num_digits = 0;  // without leading zeros
  bool has_digit = false, is_whole = true;
  for (bool is_fraction = false; p != last; ++p) {
    if (*p == '.' && !is_fraction) {
      is_fraction = true;
      continue;
    }
    if (!is_digit(*p)) break;
    has_digit = true;
    if (num_digits == kDigits) {
      is_whole = false;
    } else {
      mantissa = mantissa * 10 + static_cast<std::uint64_t>(*p - '0');
      num_digits += mantissa != 0;
      exponent -= is_fraction;
    }
  }
  if (!has_digit) return Number::kMalformed;
  if (p != last && (*p == 'e' || *p == 'E')) {
    ++p;
    const bool is_down = p != last && *p == '-';
    if (p != last && (*p == '-' || *p == '+')) ++p;
    if (p == last) return Number::kMalformed;
    std::int64_t power = 0;
    for (; p != last && is_digit(*p); ++p) power = power > 1000000 ? power : power * 10 + (*p - '0');
    exponent += is_down ? -power : power;
  }
  if (p != last) return Number::kMalformed;
  if (is_whole && mantissa <= kLargestExact && std::abs(exponent) <= kLargestPower) {
    const auto exact = static_cast<double>(mantissa);
    const double size = exponent < 0 ? exact / kPowers[-exponent] : exact * kPowers[exponent];
    value = is_negative ? -size : size;
  } else {
    value = slow_double(first, last);
  }
  return std::isfinite(value) ? Number::kOk : Number::kOutOfRange;
}

}  // namespace fleet::data
