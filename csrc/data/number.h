// Numbers in a text, read the same way whatever the locale says.
#pragma once

#include <cstdint>

namespace fleet::data {

enum class Number { kOk, kMalformed, kOutOfRange };

// Decimal digits with an optional sign, from -2^63 to 2^64 - 1. What is above 2^63 - 1 keeps its bits: ids are often
// unsigned, and int64 holds all of them.
Number read_int64(const char* first, const char* last, std::int64_t& value);

// A decimal number with an optional sign, fraction and exponent: the nearest double, as Python reads it. What is not
// finite is not read.
Number read_double(const char* first, const char* last, double& value);

}  // namespace fleet::data
