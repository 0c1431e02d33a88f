#include <cmath>
#include <stdexcept>

#include "check.h"
#include "init/initializer.h"
#include "init/quantile.h"

namespace {

using fleet::Args;

struct Case {
  const char* name;
  Args args;
  double mean, std, low, high;
};

const std::vector<Case> kCases = {
    {"constant", {}, 0, 0, 0, 0},
    {"constant", {{"value", 1.5}}, 1.5, 0, 1.5, 1.5},
    {"uniform", {{"low", -1}, {"high", 3}}, 1, 4 / std::sqrt(12.0), -1, 3},
    {"uniform", {{"low", 2}, {"high", 2}}, 2, 0, 2, 2},
    {"normal", {}, 0, 1, -6.4, 6.4},
    {"normal", {{"mean", 5}, {"std", 0.1}}, 5, 0.1, 4.36, 5.64},
    {"truncated_normal", {}, 0, 0.8796256610342398, -2, 2},
    {"truncated_normal", {{"mean", -1}, {"std", 2}}, -1, 2 * 0.8796256610342398, -5, 3},
};

std::vector<float> row_of(const fleet::Initializer& initializer, std::uint64_t seed, std::int64_t key,
                          std::size_t width) {
  std::vector<float> row(width + 1, 99);
  initializer.fill(seed, key, row.data(), width);
  CHECK(row.back() == 99);
  row.pop_back();
  return row;
}

std::string error_of(const std::string& name, const Args& args) {
  try {
    fleet::make_initializer(name, args);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(initializer_contract) {
  for (const std::string& name : fleet::initializer_names()) {
    bool tested = false;
    for (const Case& c : kCases) tested = tested || c.name == name;
    CHECK(tested);
    CHECK(error_of(name, {{"mena", 1}}).find("initializer " + name + ": unknown argument 'mena'") == 0);
  }
  constexpr std::int64_t kRows = 20000;
  constexpr std::size_t kWidth = 7;
  for (const Case& c : kCases) {
    const auto initializer = fleet::make_initializer(c.name, c.args);
    const std::uint64_t seed = fleet::table_seed(1, "ads");
    double sum = 0, squares = 0;
    for (std::int64_t key = -kRows / 2; key < kRows / 2; ++key) {
      const std::vector<float> row = row_of(*initializer, seed, key, kWidth);
      for (const float x : row) {
        CHECK(x >= c.low && x <= c.high);
        sum += x - c.mean;
        squares += (x - c.mean) * (x - c.mean);
      }
    }
    const double n = kRows * kWidth;
    CHECK(std::fabs(sum / n) <= 5 * c.std / std::sqrt(n));
    CHECK(std::fabs(std::sqrt(squares / n) - c.std) <= 5 * c.std / std::sqrt(n));

    // A row is a prefix of a wider one, and its own: another key, seed or table gives another.
    const std::vector<float> wide = row_of(*initializer, seed, 42, 33);
    for (std::size_t width = 0; width < 33; ++width) {
      CHECK(row_of(*initializer, seed, 42, width) == std::vector<float>(wide.begin(), wide.begin() + width));
    }
    const bool varies = c.std > 0;
    CHECK((row_of(*initializer, seed, 43, 33) != wide) == varies);
    CHECK((row_of(*initializer, fleet::table_seed(2, "ads"), 42, 33) != wide) == varies);
    CHECK((row_of(*initializer, fleet::table_seed(1, "ad"), 42, 33) != wide) == varies);
  }
}

TEST(initializer_messages) {
  CHECK(error_of("uniform", {{"low", 1}}) == "initializer uniform: high is missing; it must be a number");
  CHECK(error_of("uniform", {{"low", 1}, {"high", 0}}) ==
        "initializer uniform: low must be <= high, got low 1 and high 0");
  CHECK(error_of("normal", {{"std", -1}}) == "initializer normal: std must be >= 0, got -1");
  CHECK(error_of("truncated_normal", {{"mean", std::nan("")}}) ==
        "initializer truncated_normal: mean must be a finite float32 number, got nan");
  CHECK(error_of("norml", {}) ==
        "unknown initializer 'norml'; did you mean 'normal'? Known: constant, normal, truncated_normal, uniform");
}

TEST(normal_quantile) {
  for (int i = 1; i < 20000; ++i) {
    const double u = i / 20000.0;
    // Through the distribution function and back.
    const double x = fleet::normal_quantile(u);
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
    CHECK(std::fabs(std::erfc(-x / std::sqrt(2.0)) / 2 - u) < 1e-9 * density);
  }
  for (int power = 1; power <= 33; ++power) {
    const double u = 1 / std::pow(2.0, power);
    const double x = fleet::normal_quantile(u);
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
    CHECK(std::fabs(std::erfc(-x / std::sqrt(2.0)) / 2 - u) < 1e-9 * density);
    CHECK(fleet::normal_quantile(1 - u) == -x);
  }
}

// Saved tables and servers of other versions depend on these values.
TEST(initializer_never_changes) {
  CHECK(fleet::table_seed(0, "") == 0xe220a8397b1dcdafu);
  const std::uint64_t seed = fleet::table_seed(7, "ads");
  CHECK(seed == 0xad77eb7d036eecc1u);
  constexpr std::int64_t kKey = -123456789;
  using Floats = std::vector<float>;
  CHECK(row_of(*fleet::make_initializer("constant", {{"value", 0.1}}), seed, kKey, 1) == Floats{0.1f});
  CHECK(row_of(*fleet::make_initializer("uniform", {{"low", -0.01}, {"high", 0.01}}), seed, kKey, 4) ==
        (Floats{0x1.8b4466p-8f, -0x1.20eebp-10f, 0x1.e18504p-8f, 0x1.12d0b8p-7f}));
  CHECK(row_of(*fleet::make_initializer("normal", {}), seed, kKey, 4) ==
        (Floats{0x1.b1c76p-1f, -0x1.1bd08p-3f, 0x1.1d322p+0f, 0x1.668e7ap+0f}));
  CHECK(row_of(*fleet::make_initializer("truncated_normal", {}), seed, kKey, 4) ==
        (Floats{0x1.99117cp-1f, -0x1.0ed2cep-3f, 0x1.0a0c08p+0f, 0x1.487316p+0f}));
}
