// Updates of rows in 16 bits.
#include "table/rounding.h"

#include <cmath>

#include "tables.h"

namespace {

using fleet::Dtype;

constexpr std::size_t kWidth = 70;  // more than one chunk of draws, and no multiple of four

std::unique_ptr<fleet::Table> table_of(Dtype dtype, std::uint64_t seed = 5) {
  Setup setup;
  setup.width = kWidth;
  setup.dtype = dtype;
  setup.seed = seed;
  return make_table(setup);
}

// The rows of `keys`, which begin at 1, after pushes of `grad` at a rate of 1.
Floats trained(fleet::Table& table, const Keys& keys, float grad, std::uint32_t steps) {
  table.assign(keys.data(), keys.size(), Floats(keys.size() * kWidth, 1).data());
  for (std::uint32_t step = 0; step < steps; ++step) {
    push(table, keys, Floats(keys.size() * kWidth, grad), {step, 1.0});
  }
  return pull(table, keys);
}

struct Mean {
  double mean, deviation;
};

Mean mean_of(const Floats& values) {
  double sum = 0, squares = 0;
  for (const float value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const float value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / static_cast<double>(values.size()))};
}

}  // namespace

TEST(rounding_draws_never_change) {
  CHECK(fleet::rounding_state(0, 0, 0) == 0xa706dd2f4d197e6fu);
  CHECK(fleet::rounding_state(7, -3, 41) == 0xdf25ea8e17ab6cc2u);
  const Floats values(12, 1.0f + 0x1p-8f);
  std::uint16_t stored[12];
  fleet::store_by_chance<fleet::Bfloat16>(values.data(), 12, fleet::rounding_state(7, -3, 41), stored);
  const std::uint16_t expected[12] = {0x3f81, 0x3f81, 0x3f81, 0x3f81, 0x3f81, 0x3f81,
                                      0x3f80, 0x3f80, 0x3f80, 0x3f80, 0x3f81, 0x3f81};
  for (std::size_t i = 0; i < 12; ++i) CHECK(stored[i] == expected[i]);
}

TEST(rows_in_16_bits_learn_from_small_steps) {
  const Keys keys = random_keys(200, 1);
  for (const Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16}) {
    for (const float grad : {0.001f, -0.0001f, 0.00001f}) {
      const auto table = table_of(dtype);
      const Floats rows = trained(*table, keys, grad, 1000);
      const Mean found = mean_of(rows);
      const double error = found.mean - (1 - 1000 * static_cast<double>(grad));
      // Four standard errors of 14,000 values.
      CHECK(std::fabs(error) < 4 * found.deviation / std::sqrt(static_cast<double>(rows.size())) + 1e-9);
      CHECK(found.deviation > 0 && found.deviation < 0.2);
    }
  }
}

TEST(rounding_repeats_and_depends_on_all_that_it_should) {
  const Keys keys = random_keys(50, 2);
  for (const Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16}) {
    const auto table = table_of(dtype), same = table_of(dtype), other = table_of(dtype, 6);
    const Floats rows = trained(*table, keys, 0.0003f, 20);
    Keys backwards(keys.rbegin(), keys.rend());
    const Floats reversed = trained(*same, backwards, 0.0003f, 20);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      CHECK(std::equal(&rows[i * kWidth], &rows[i * kWidth] + kWidth, &reversed[(keys.size() - 1 - i) * kWidth]));
    }
    CHECK(trained(*other, keys, 0.0003f, 20) != rows);
    // One step: elements, keys and steps are drawn apart.
    const Floats once = trained(*table, keys, 0.0003f, 1);
    CHECK(once == trained(*table, keys, 0.0003f, 1));
    CHECK(!std::equal(once.begin(), once.begin() + kWidth, once.begin() + kWidth));
    CHECK(mean_of(Floats(once.begin(), once.begin() + kWidth)).deviation > 0);
    table->assign(keys.data(), keys.size(), Floats(keys.size() * kWidth, 1).data());
    push(*table, keys, Floats(keys.size() * kWidth, 0.0003f), {1, 1.0});
    CHECK(pull(*table, keys) != once);
  }
}

TEST(rounding_is_even_over_steps_keys_and_elements) {
  // A quarter of the way to the next number: taken by a quarter of the draws of each element, step and key.
  constexpr std::size_t kSteps = 400;
  constexpr float kUp = 1.0f + 0x1p-9f;
  const Floats values(kWidth, kUp);
  std::vector<double> by_element(kWidth), by_step(kSteps), by_key(kSteps);
  std::uint16_t stored[kWidth];
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    for (std::int64_t key = 0; key < static_cast<std::int64_t>(kSteps); ++key) {
      fleet::store_by_chance<fleet::Bfloat16>(values.data(), kWidth, fleet::rounding_state(5, key, step), stored);
      for (std::size_t i = 0; i < kWidth; ++i) {
        const double up = stored[i] == 0x3f81 ? 1 : 0;
        by_element[i] += up;
        by_step[step] += up;
        by_key[static_cast<std::size_t>(key)] += up;
      }
    }
  }
  const auto check = [](const std::vector<double>& counts, double n) {
    for (const double count : counts) CHECK(std::fabs(count / n - 0.25) < 5 * std::sqrt(0.1875 / n));
  };
  check(by_element, kSteps * kSteps);
  check(by_step, kSteps * kWidth);
  check(by_key, kSteps * kWidth);
}
