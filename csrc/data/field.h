// One field of a text as a number or an id. Most are short integers, which take no loop and no branch on their length.
//
// 8 bytes in front of a field must be readable. They are no part of the result.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "data/hash_text.h"
#include "data/number.h"

namespace fleet::data {

struct Field {
  const char* first;
  const char* last;

  std::size_t size() const { return static_cast<std::size_t>(last - first); }
  bool is_gap() const { return first == last; }
};

inline bool is_one_of(Field field, const std::vector<std::string>& texts) {
  return std::any_of(texts.begin(), texts.end(), [field](const std::string& text) {
    return text.size() == field.size() && std::memcmp(text.data(), field.first, text.size()) == 0;
  });
}

// The value of n decimal digits that end at `last`, with 1 <= n <= 8; false if one of them is none.
inline bool read_digits(const char* last, std::size_t n, std::uint64_t& value) {
  constexpr std::uint64_t kZeros = 0x3030303030303030u, kHigh = 0xf0f0f0f0f0f0f0f0u;
  const std::uint64_t mine = ~std::uint64_t{0} << (8 * (8 - n));
  std::uint64_t word = (text_hash::load8(last - 8) & mine) | (kZeros & ~mine);
  if (((word & kHigh) ^ kZeros) | (((word + 0x0606060606060606u) & kHigh) ^ kZeros)) return false;
  word = (word & 0x0f0f0f0f0f0f0f0fu) * 2561 >> 8;              // pairs of digits
  word = (word & 0x00ff00ff00ff00ffu) * 6553601 >> 16;          // fours
  value = (word & 0x0000ffff0000ffffu) * 42949672960001 >> 32;  // all eight
  return true;
}

// An integer of at most 8 digits: its size and its sign.
inline bool read_short(Field field, std::uint64_t& size, bool& is_negative) {
  if (field.is_gap()) return false;
  is_negative = *field.first == '-';
  const std::size_t n = field.size() - is_negative;
  return n - 1 < 8 && read_digits(field.last, n, size);
}

inline Field without_blanks(Field field) {
  while (!field.is_gap() && *field.first == ' ') ++field.first;
  while (!field.is_gap() && field.last[-1] == ' ') --field.last;
  return field;
}

inline Number read_number(Field field, double& value) {
  std::uint64_t size = 0;
  bool is_negative = false;
  if (read_short(field, size, is_negative)) {
    value = is_negative ? -static_cast<double>(size) : static_cast<double>(size);
    return Number::kOk;
  }
  field = without_blanks(field);
  return read_double(field.first, field.last, value);
}

inline Number read_plain_id(Field field, std::int64_t& id) {
  std::uint64_t size = 0;
  bool is_negative = false;
  if (read_short(field, size, is_negative)) {
    id = is_negative ? -static_cast<std::int64_t>(size) : static_cast<std::int64_t>(size);
    return Number::kOk;
  }
  field = without_blanks(field);
  const Number how = read_int64(field.first, field.last, id);
  return how == Number::kOk && id < 0 && *field.first != '-' ? Number::kOutOfRange : how;
}

// log(1 + |x|) with the sign of x. Small counts, which most are, come from a table of the same values.
class Logarithm {
 public:
  Logarithm() {
    for (std::size_t i = 0; i < kSmall; ++i) table_[i] = static_cast<float>(std::log1p(static_cast<double>(i)));
  }

  static const Logarithm& shared() {
    static const Logarithm made;
    return made;
  }

  static float of(double x) { return static_cast<float>(std::copysign(std::log1p(std::fabs(x)), x)); }

  // The same value as `of`, from the table where the number is a small count. NaN stays what it is.
  float of_number(double x) const {
    const double size = std::fabs(x);
    if (!(size < kSmall)) return of(x);
    const auto whole = static_cast<std::size_t>(size);
    if (static_cast<double>(whole) != size) return of(x);
    return std::signbit(x) ? -table_[whole] : table_[whole];
  }

  float of_integer(std::uint64_t size, bool is_negative) const {
    const float value = size < kSmall ? table_[size] : static_cast<float>(std::log1p(static_cast<double>(size)));
    return is_negative ? -value : value;
  }

 private:
  static constexpr std::size_t kSmall = 4096;
  float table_[kSmall];
};

}  // namespace fleet::data
