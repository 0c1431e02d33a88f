// Norms of a row or of a dense parameter, for the rules whose elements know of each other.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

namespace fleet {

// Of element(0), ..., element(n - 1). Compilers may not reorder a sum; in four of them, each in double, they find their
// vectors. The square of a float is exact in double, and never too large.
template <class Element>
double sum_of_squares(std::size_t n, Element element) {
  double sums[4] = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::size_t k = 0; k < 4; ++k) {
      const double x = element(i + k);
      sums[k] += x * x;
    }
  }
  for (; i < n; ++i) {
    const double x = element(i);
    sums[0] += x * x;
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

inline double norm(const float* x, std::size_t n) {
  return std::sqrt(sum_of_squares(n, [x](std::size_t i) { return x[i]; }));
}

// A rate that was divided by a norm. Where that was next to nothing it stays a number, so that 0 times it is 0.
inline float finite_rate(double rate) {
  constexpr float kMax = std::numeric_limits<float>::max();
  return rate > kMax ? kMax : static_cast<float>(rate);
}

}  // namespace fleet
