// Keys without a row, and rows that may not grow beyond a norm.
#include <cmath>
#include <limits>

#include "tables.h"

namespace {

using fleet::Dtype;

constexpr std::size_t kWidth = 5;

std::unique_ptr<fleet::Table> limited(double max_norm, double norm_type, Dtype dtype) {
  fleet::TableOptions options;
  options.name = "ads";
  options.width = kWidth;
  options.rule = fleet::make_rule("sgd", {{"lr", 1.0}});
  options.initializer = fleet::make_initializer("uniform", {{"low", -1.0}, {"high", 1.0}});
  options.dtype = dtype;
  options.has_max_norm = true;
  options.max_norm = max_norm;
  options.norm_type = norm_type;
  return std::make_unique<fleet::Table>(std::move(options));
}

double norm_of(const float* values, double p) {
  double sum = 0, most = 0;
  for (std::size_t d = 0; d < kWidth; ++d) {
    sum += std::pow(std::abs(values[d]), p);
    most = std::max(most, std::abs(static_cast<double>(values[d])));
  }
  return std::isinf(p) ? most : std::pow(sum, 1 / p);
}

}  // namespace

TEST(table_pulls_zeros_for_missing_keys_if_asked) {
  const auto table = make_table({});
  const std::size_t width = table->format().width;
  push_ones(*table, {7});
  Floats out(2 * width, -1.0f);
  const Keys keys = {7, 8};
  table->pull(keys.data(), keys.size(), out.data(), fleet::Table::Missing::kZeros);
  const Floats known = pull(*table, {7});
  CHECK(std::equal(known.begin(), known.end(), out.begin()));
  for (std::size_t d = width; d < 2 * width; ++d) CHECK(out[d] == 0.0f);
  CHECK(pull(*table, {8}) != Floats(width));
  CHECK(table->size() == 1);
}

TEST(table_rows_stay_within_a_norm) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Keys keys = random_keys(300, 3);
  const Floats grads = [&] {
    Floats made(keys.size() * kWidth);
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<float>(i * 31 % 17) - 8.0f;
    return made;
  }();
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kFloat16, Dtype::kBfloat16}) {
    for (const double p : {1.0, 2.0, 3.5, kInfinity}) {
      const auto table = limited(0.7, p, dtype);
      const auto check = [&](const fleet::Table& one) {
        const Floats rows = pull(one, keys);
        for (std::size_t i = 0; i < keys.size(); ++i) CHECK(norm_of(&rows[i * kWidth], p) <= 0.7);
      };
      check(*table);
      const Floats first = pull(*table, keys);
      push(*table, keys, Floats(grads.size()));
      CHECK(pull(*table, keys) == first);  // stored as they were read
      push(*table, keys, grads);
      check(*table);
      // What is within the norm is not touched: a copy has the same bits.
      const auto copy = limited(0.7, p, dtype);
      copy->restore(view_of(table->dump(0, fleet::Table::kShards)), 0, 1);
      CHECK(pull(*copy, keys) == pull(*table, keys));
      const auto smaller = limited(0.1, p, dtype);
      smaller->restore(view_of(table->dump(0, fleet::Table::kShards)), 0, 1);
      const Floats rows = pull(*smaller, keys);
      for (std::size_t i = 0; i < keys.size(); ++i) CHECK(norm_of(&rows[i * kWidth], p) <= 0.1);
      table->assign(keys.data(), keys.size(), grads.data());
      check(*table);
    }
  }
}
