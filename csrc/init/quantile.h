// The inverse of the standard normal distribution's cumulative function.
#pragma once

namespace fleet {

// x with P(X < x) = u, to 1e-9. Requires 2^-33 <= u <= 1 - 2^-33; normal_quantile(1 - u) is exactly -normal_quantile(u)
// where 1 - u is exact.
double normal_quantile(double u);

}  // namespace fleet
