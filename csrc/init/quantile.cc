#include "init/quantile.h"

#include <cmath>

#include "rule/elementary.h"

namespace fleet {

namespace {

// Our own fits: ratios of two polynomials of degree 4, least squares on 300 Chebyshev points against 40 digits, the
// weights moved to where the error was largest until it was level. They are in t = (x - c) / h, which stays within
// [-1, 1.02], so that they need few digits.
constexpr int kTerms = 5;

double ratio(const double (&above)[kTerms], const double (&below)[kTerms], double t) {
  double p = above[kTerms - 1], q = below[kTerms - 1];
  for (int k = kTerms - 2; k >= 0; --k) {
    p = p * t + above[k];
    q = q * t + below[k];
  }
  return p / q;
}

// quantile(1/2 + q) / q as a function of q^2, for |q| <= 0.425; the quantile's error is below 2.2e-10.
constexpr double kMiddleAbove[] = {2.80540411156, -3.05169929912, 1.04433209425, -0.116386934449, 0.00218589530171};
constexpr double kMiddleBelow[] = {1, -1.2244062835, 0.498453217845, -0.0747475611529, 0.0029710631525};

// -quantile(p) as a function of sqrt(-2 log p), for 2^-33 <= p <= 0.075; the error is below 7e-11.
constexpr double kTailAbove[] = {3.94400916123, 6.59120126754, 3.88677959067, 0.954917240244, 0.0817051319711};
constexpr double kTailBelow[] = {1, 1.05589452057, 0.352381599338, 0.0362859911204, 1.17423940522e-06};

}  // namespace

double normal_quantile(double u) {
  const double q = u - 0.5;
  const double size = q < 0 ? -q : q;
  if (size <= 0.425) return q * ratio(kMiddleAbove, kMiddleBelow, (q * q - 0.09) / 0.09);
  const double s = std::sqrt(-2 * natural_log(0.5 - size));
  const double x = ratio(kTailAbove, kTailBelow, (s - 4.5) / 2.25);
  return q < 0 ? -x : x;
}

}  // namespace fleet
