// The rules that measure a whole row, where its norms are easy to see or hard to take.
#include <cmath>
#include <limits>

#include "check.h"
#include "rule/norm.h"
#include "rule/rule.h"

namespace {

using fleet::Args;
using Floats = std::vector<float>;

Floats stepped(const char* name, const Args& args, Floats values, const Floats& grads, double lr) {
  const auto rule = fleet::make_rule(name, args);
  Floats state(rule->state_width(values.size()));
  rule->start(state.data(), values.size());
  rule->apply(values.data(), state.data(), grads.data(), values.size(), lr);
  return values;
}

bool near(float x, double expected) { return std::fabs(x - expected) <= 1e-6 * std::fabs(expected) + 1e-7; }

}  // namespace

TEST(norm) {
  Floats x;
  for (std::size_t n = 0; n < 40; ++n) {
    double sum = 0;
    for (const float one : x) sum += double{one} * one;
    CHECK(fleet::sum_of_squares(n, [&x](std::size_t i) { return x[i]; }) == sum);  // of whole numbers: exact
    CHECK(fleet::norm(x.data(), n) == std::sqrt(sum));
    x.push_back(static_cast<float>(n % 7) - 3);
  }
  constexpr float kMax = std::numeric_limits<float>::max(), kLeast = std::numeric_limits<float>::denorm_min();
  CHECK(near(static_cast<float>(fleet::norm(Floats{kMax, kMax}.data(), 2) / kMax), std::sqrt(2.0)));
  CHECK(fleet::norm(Floats{0, kLeast}.data(), 2) == double{kLeast});
  CHECK(fleet::finite_rate(1e300) == kMax && fleet::finite_rate(0.5) == 0.5f && fleet::finite_rate(0) == 0);
}

TEST(lars_by_hand) {
  // |w| = 5, |g| = 10: a rate of 2 * 0.1 * 5 / (10 + 0.5 * 5 + 7.5) = 0.05.
  const Args args{{"lr", 1}, {"coeff", 0.1}, {"weight_decay", 0.5}, {"eps", 7.5}};
  const Floats moved = stepped("lars", args, {3, 4}, {6, -8}, 2);
  CHECK(near(moved[0], 3 - 0.05 * (6 + 1.5)) && near(moved[1], 4 - 0.05 * (-8 + 2)));
  // Without weights or without a gradient there is no ratio: the rate is lr.
  CHECK(stepped("lars", args, {0, 0}, {6, -8}, 0.5) == (Floats{-3, 4}));
  CHECK(stepped("lars", args, {4, 8}, {0, 0}, 0.5) == (Floats{3, 6}));
}

TEST(lamb_by_hand) {
  // The first step of Adam is the sign of the gradient; |w| = 5, and |r| = sqrt(2) without decay.
  const Floats moved = stepped("lamb", {{"weight_decay", 0}, {"eps", 0}}, {3, 4}, {6, -8}, 0.1);
  CHECK(near(moved[0], 3 - 0.1 * 5 / std::sqrt(2.0)) && near(moved[1], 4 + 0.1 * 5 / std::sqrt(2.0)));
  // r = (1 + 0.5 * 3, -1 + 0.5 * 4) = (2.5, 1) with it.
  const Floats decayed = stepped("lamb", {{"weight_decay", 0.5}, {"eps", 0}}, {3, 4}, {6, -8}, 0.1);
  const double rate = 0.1 * 5 / std::sqrt(2.5 * 2.5 + 1);
  CHECK(near(decayed[0], 3 - rate * 2.5) && near(decayed[1], 4 - rate));
  const Floats from_zero = stepped("lamb", {}, {0, 0}, {6, -8}, 0.5);
  CHECK(near(from_zero[0], -0.5) && near(from_zero[1], 0.5));
  CHECK(stepped("lamb", {{"weight_decay", 0}}, {4, 8}, {0, 0}, 0.5) == (Floats{4, 8}));
}

TEST(layerwise_next_to_nothing) {
  // A rate beyond float must not make NaN of the zeros beside the one gradient that is not zero.
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  for (const char* name : {"lars", "lamb"}) {
    const Floats moved = stepped(name, {{"lr", 1}, {"weight_decay", 0}}, {1e10f, 1e10f, 1}, {kLeast, 0, 0}, 1);
    for (const float x : moved) CHECK(std::isfinite(x));
  }
}
