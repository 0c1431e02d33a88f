// What a number in a text loses when it is stored.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include "data/field.h"

namespace fleet::data {

// Whether a float32 keeps the whole part of a number. Beyond 2^24 it does not have every whole number any more; what
// int64 does not have either is no count, time or key, and nobody expects each of its digits.
inline bool keeps_whole(double wide, float narrow) {
  const double size = std::fabs(wide);
  return !(size > 16777216.0) || !(size < 9223372036854775808.0) || std::fabs(static_cast<double>(narrow) - wide) < 0.5;
}

// Whether a double is the whole number that stands in a field: it has each below 2^53.
inline bool is_exact(Field field, double value) {
  std::int64_t whole = 0;
  if (!(std::fabs(value) >= 9007199254740992.0) || read_plain_id(field, whole) != Number::kOk) return true;
  return value < 9223372036854775808.0 && static_cast<std::int64_t>(value) == whole;
}

// What a float32 makes of a number, and what to do about it.
inline std::string rounded(double number, const char* remedy) {
  char value[64];
  std::snprintf(value, sizeof(value), "%.0f", static_cast<double>(static_cast<float>(number)));
  return "float32 would make " + std::string(value) + " (" + remedy + ")";
}

}  // namespace fleet::data
