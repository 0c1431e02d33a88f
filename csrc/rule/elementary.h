// Logarithm, exponential and power in double, from + - * / alone: the same bits with every compiler and library, which
// those of <cmath> are not. Exact to a few units in the last place, over the ranges below.
#pragma once

namespace fleet {

// Requires a normal x > 0.
double natural_log(double x);

// Requires |x| < 700.
double exponential(double x);

// base^exponent; 0^0 is 1. Requires 0 <= base <= 3.5e38, the range of float, and |exponent| <= 1. A base that is none
// of these, such as infinity or NaN, comes back as it is.
double power(double base, double exponent);

}  // namespace fleet
