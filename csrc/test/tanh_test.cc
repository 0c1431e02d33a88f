#include "math/tanh.h"

#include <cmath>
#include <limits>
#include <vector>

#include "check.h"

namespace {

TEST(tanh_is_within_a_few_roundings_everywhere) {
  std::vector<float> values, inputs;
  for (int i = -60000; i <= 60000; ++i) inputs.push_back(static_cast<float>(i) * 2e-4f);
  for (float small = 1e-30f; small < 1; small *= 3) inputs.push_back(small);
  values = inputs;
  const std::vector<float> bias(values.size(), 0.0f);
  fleet::add_bias_and_tanh(values.data(), bias.data(), 1, values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double exact = std::tanh(static_cast<double>(inputs[i]));
    CHECK(std::fabs(values[i] - exact) <= 4e-7 * std::fabs(exact));
    CHECK(std::fabs(values[i]) <= 1);
  }
}

TEST(tanh_adds_the_bias_of_each_column) {
  std::vector<float> values = {1, 2, 3, -1, -2, -3};
  const std::vector<float> bias = {-1, -2, -2.5f};
  fleet::add_bias_and_tanh(values.data(), bias.data(), 2, 3);
  CHECK(values[0] == 0 && values[1] == 0);
  CHECK(std::fabs(values[2] - std::tanh(0.5)) < 1e-6);
  CHECK(std::fabs(values[5] - std::tanh(-5.5)) < 1e-6);
}

TEST(tanh_takes_what_is_not_finite) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> values = {inf, -inf, std::numeric_limits<float>::quiet_NaN()};
  const std::vector<float> bias(3, 0.0f);
  fleet::add_bias_and_tanh(values.data(), bias.data(), 1, 3);
  CHECK(std::fabs(values[0] - 1) < 1e-6 && std::fabs(values[1] + 1) < 1e-6);
  CHECK(std::isnan(values[2]));
}

}  // namespace
