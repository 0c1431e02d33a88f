#include "rule/rule.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "check.h"
#include "rule/corrections.h"
#include "rule/elementary.h"

namespace {

using fleet::Args;
using Floats = std::vector<float>;

// A rule with every argument that changes its course; arrays and scalars of its state.
struct Case {
  const char* name;
  Args args;
  std::size_t arrays, scalars;
  Floats start = {};  // the state of a new row of 2, if not zeros
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"sgd", {}, 0, 0},
      {"sgd", {{"lr", 0.1}, {"weight_decay", 0.01}, {"maximize", 1}}, 0, 0},
      {"momentum", {{"lr", 0.1}, {"momentum", 0.9}}, 1, 0},
      {"momentum", {{"lr", 0.1}, {"momentum", 0.9}, {"dampening", 0.5}, {"weight_decay", 0.1}}, 1, 1},
      {"momentum", {{"lr", 0.1}, {"momentum", 0.9}, {"nesterov", 1}, {"maximize", 1}}, 1, 0},
      {"adagrad", {}, 1, 0},
      {"adagrad",
       {{"lr_decay", 0.1}, {"initial_accumulator_value", 0.5}, {"weight_decay", 0.1}},
       1,
       1,
       {0.5f, 0.5f, 0}},
      {"adagrad_row", {}, 0, 1},
      {"adagrad_row", {{"lr_decay", 0.1}, {"initial_accumulator_value", 0.5}, {"maximize", 1}}, 0, 2, {0.5f, 0}},
      {"adam", {}, 2, 1},
      {"adam", {{"amsgrad", 1}, {"weight_decay", 0.1}, {"beta1", 0}, {"beta2", 0.9999999}}, 3, 1},
      {"adam", {{"decoupled_weight_decay", 1}, {"weight_decay", 0.1}, {"maximize", 1}}, 2, 1},
      {"adamax", {}, 2, 1},
      {"adamax", {{"beta1", 0}, {"beta2", 0.5}, {"eps", 1e-3}, {"weight_decay", 0.1}, {"maximize", 1}}, 2, 1},
      {"adamw", {}, 2, 1},
      {"adamw", {{"amsgrad", 1}, {"eps", 1e-3}}, 3, 1},
      {"average", {}, 0, 0},
      {"decayed_adagrad", {}, 1, 0},
      {"decayed_adagrad", {{"decay", 0}, {"eps", 1e-3}, {"weight_decay", 0.1}, {"maximize", 1}}, 1, 0},
      {"lamb", {}, 2, 1},
      {"lamb", {{"beta1", 0}, {"beta2", 0.5}, {"weight_decay", 0}, {"maximize", 1}}, 2, 1},
      {"lars", {{"lr", 0.1}}, 1, 0},
      {"lars", {{"lr", 8}, {"momentum", 0}, {"coeff", 0.1}, {"eps", 1e-3}, {"maximize", 1}}, 1, 0},
      {"lars", {{"lr", 8}, {"weight_decay", 0}, {"nesterov", 1}}, 1, 0},
      {"rmsprop", {}, 1, 0},
      {"rmsprop", {{"momentum", 0.9}}, 2, 0},
      {"rmsprop", {{"centered", 1}, {"weight_decay", 0.1}}, 2, 0},
      {"rmsprop", {{"momentum", 0.9}, {"centered", 1}, {"maximize", 1}}, 3, 0},
      {"ftrl", {}, 2, 0, {0, 0, 0.1f, 0.1f}},
      {"ftrl", {{"l1", 0.1}, {"l2", 0.1}, {"weight_decay", 0.1}, {"initial_accumulator_value", 0}}, 2, 0},
      {"ftrl", {{"lr_power", -0.7}, {"l1", 0.1}}, 2, 0, {0, 0, 0.1f, 0.1f}},
      {"sum", {}, 0, 0},
  };
  return all;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

float value_of(std::size_t i) { return 0.25f - 0.037f * static_cast<float>(i % 17); }
float grad_of(std::size_t i, int step) { return 0.1f * static_cast<float>((i * 7 + step * 5) % 23) - 1.03f; }

// Rules whose elements know of each other: what becomes of one depends on the whole row.
bool measures_rows(const std::string& name) { return name == "adagrad_row" || name == "lars" || name == "lamb"; }

struct Row {
  Floats values, state;
};

// Elements begin..begin + width of a longer row, after some steps; guards around them must stay as they were.
Row trained(const fleet::Rule& rule, std::size_t begin, std::size_t width, int steps) {
  constexpr float kGuard = 123;
  Row row{Floats(width + 2, kGuard), Floats(rule.state_width(width) + 2, kGuard)};
  Floats grads(width);
  for (std::size_t i = 0; i < width; ++i) row.values[i + 1] = value_of(begin + i);
  rule.start(row.state.data() + 1, width);
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < width; ++i) grads[i] = grad_of(begin + i, step);
    rule.apply(row.values.data() + 1, row.state.data() + 1, grads.data(), width, rule.lr());
  }
  for (Floats* block : {&row.values, &row.state}) {
    CHECK(block->front() == kGuard && block->back() == kGuard);
    *block = Floats(block->begin() + 1, block->end() - 1);
  }
  return row;
}

std::string error_of(const std::string& name, const Args& args) {
  try {
    fleet::make_rule(name, args);
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    CHECK(text.find('\n') == std::string::npos);
    return text;
  }
  return "";
}

void check_contract(const Case& c) {
  const auto rule = fleet::make_rule(c.name, c.args);
  Floats state(rule->state_width(2), -1);
  rule->start(state.data(), 2);
  CHECK(same_bits(state, c.start.empty() ? Floats(state.size(), 0) : c.start));

  for (const std::size_t width : {0, 1, 3, 4, 7, 16, 33}) {
    CHECK(rule->state_width(width) == c.arrays * width + c.scalars);
    const Row row = trained(*rule, 0, width, 9);
    for (const float x : row.values) CHECK(std::isfinite(x));
    for (const float x : row.state) CHECK(std::isfinite(x));
    for (std::size_t i = 0; i < width; ++i) CHECK(row.values[i] != value_of(i));
    CHECK(same_bits(row.values, trained(*rule, 0, width, 9).values));

    if (measures_rows(c.name)) continue;
    const Row whole = trained(*rule, 0, 2 * width, 9);
    const Row left = trained(*rule, 0, width, 9), right = trained(*rule, width, width, 9);
    Row joined = left;
    joined.values.insert(joined.values.end(), right.values.begin(), right.values.end());
    joined.state.clear();
    for (std::size_t a = 0; a < c.arrays; ++a) {
      for (const Row* half : {&left, &right}) {
        joined.state.insert(joined.state.end(), half->state.begin() + static_cast<std::ptrdiff_t>(a * width),
                            half->state.begin() + static_cast<std::ptrdiff_t>((a + 1) * width));
      }
    }
    joined.state.insert(joined.state.end(), left.state.end() - static_cast<std::ptrdiff_t>(c.scalars),
                        left.state.end());
    CHECK(same_bits(whole.values, joined.values));
    CHECK(same_bits(whole.state, joined.state));
  }
}

void check_arguments(const Case& c) {
  const std::string rule = std::string("rule ") + c.name + ": ";
  Args with = c.args;
  with["lr_"] = 1;
  const std::string unknown = error_of(c.name, with);
  CHECK(unknown.find(rule + "unknown argument 'lr_'") == 0);
  const bool has_lr = std::string(c.name) != "sum";
  CHECK((unknown.find("did you mean 'lr'?") != std::string::npos) == has_lr);
  if (!has_lr) return;
  for (const double bad : {-1.0, std::nan(""), HUGE_VAL, 1e300}) {
    with = c.args;
    with["lr"] = bad;
    CHECK(error_of(c.name, with).find(rule + "lr must be ") == 0);
  }
  with = c.args;
  with["maximize"] = 2;
  const bool has_direction = std::string(c.name) != "average";
  CHECK(error_of(c.name, with) ==
        rule + (has_direction ? "maximize must be 0 or 1, got 2" : "unknown argument 'maximize'. Known: lr"));
  with = c.args;
  with["lr"] = 0.5;
  CHECK(fleet::make_rule(c.name, with)->lr() == 0.5);
}

}  // namespace

TEST(rule_contract) {
  for (const std::string& name : fleet::rule_names()) {
    bool tested = false;
    for (const Case& c : cases()) tested = tested || c.name == name;
    CHECK(tested);
  }
  for (const Case& c : cases()) {
    check_contract(c);
    check_arguments(c);
  }
}

TEST(rule_messages) {
  CHECK(error_of("adam", {{"beta2", 1.5}}) == "rule adam: beta2 must be in [0, 1), got 1.5");
  CHECK(error_of("adam", {{"beta1", 1}}) == "rule adam: beta1 must be in [0, 1), got 1");
  CHECK(error_of("adam", {{"eps", -1e-8}}) == "rule adam: eps must be >= 0, got -1e-08");
  CHECK(error_of("adam", {{"lr", std::nan("")}}) == "rule adam: lr must be a finite float32 number, got nan");
  CHECK(error_of("adamw", {{"decoupled_weight_decay", 0}}).find("rule adamw: decoupled_weight_decay must be 1") == 0);
  CHECK(error_of("momentum", {{"lr", 1}}) == "rule momentum: momentum is missing; it must be >= 0");
  CHECK(error_of("momentum", {{"lr", 1}, {"momentun", 1}}).find("did you mean 'momentum'?") != std::string::npos);
  CHECK(error_of("momentum", {{"lr", 1}, {"momentum", 0}, {"nesterov", 1}}) ==
        "rule momentum: nesterov needs momentum > 0, got momentum 0");
  CHECK(error_of("momentum", {{"lr", 1}, {"momentum", 0.5}, {"nesterov", 1}, {"dampening", 1}}) ==
        "rule momentum: nesterov needs dampening 0, got dampening 1");
  CHECK(error_of("ftrl", {{"lr_power", 0.5}}) == "rule ftrl: lr_power must be in [-1, 0], got 0.5");
  CHECK(error_of("rmsprop", {{"alpha", 1}}) == "rule rmsprop: alpha must be in [0, 1), got 1");
  CHECK(error_of("decayed_adagrad", {{"decay", 1}}) == "rule decayed_adagrad: decay must be in [0, 1), got 1");
  CHECK(error_of("lars", {}) == "rule lars: lr is missing; it must be >= 0");
  CHECK(error_of("lars", {{"lr", 1}, {"coeff", -1}}) == "rule lars: coeff must be >= 0, got -1");
  CHECK(error_of("sum", {{"lr", 1}}) == "rule sum: unknown argument 'lr'. Known: none");
  CHECK(error_of("adma", {}).find("unknown rule 'adma'; did you mean 'adam'? Known: adagrad, adagrad_row") == 0);
  CHECK(error_of("", {}).find("unknown rule ''. Known: ") == 0);
  CHECK(error_of("a\n\xff", {}).find("unknown rule 'a\\x0a\\xff'") == 0);
  CHECK(error_of(std::string(100000, 'x'), {}).size() < 300);
}

TEST(rule_rate_of_the_push) {
  for (const Case& c : cases()) {
    const auto rule = fleet::make_rule(c.name, c.args);
    Floats state(rule->state_width(1)), value{0.5f};
    const float grad = 0.25f;
    rule->start(state.data(), 1);
    rule->apply(value.data(), state.data(), &grad, 1, 0.0);
    CHECK(value[0] == (std::string(c.name) == "sum" ? 0.75f : 0.5f));
  }
}

TEST(rule_damaged_count) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  for (const char* name : {"adam", "adamax", "lamb"}) {
    const auto rule = fleet::make_rule(name, {});
    for (const float count : {-5.0f, 1e30f, kNan, -kInfinity, 16777216.0f}) {
      float value = 1, state[] = {0, 0, count};
      const float grad = 1;
      rule->apply(&value, state, &grad, 1, 0.001);
      CHECK(std::isfinite(value));
    }
  }
}

TEST(corrections) {
  using fleet::Corrections;
  const Corrections usual(0.999, Corrections::Kind::kReciprocalRoot);
  CHECK(usual.size() > 17000 && usual.size() < 18000);
  for (const std::size_t t : {1, 2, 10, 1000, 17000}) {
    const double expected = 1 / std::sqrt(1 - std::pow(0.999, static_cast<double>(t)));
    CHECK(std::fabs(usual.at(t) / expected - 1) < 1e-12);
  }
  CHECK(usual.at(usual.size() + 1) == 1 && usual.at(std::size_t{1} << 40) == 1);

  const Corrections none(0, Corrections::Kind::kReciprocal);
  CHECK(none.size() == 0 && none.at(1) == 1);

  const Corrections slow(0.9999999, Corrections::Kind::kReciprocal);
  CHECK(slow.size() == std::size_t{1} << 20);
  for (const std::size_t t : {std::size_t{1} << 20, (std::size_t{1} << 20) + 1, std::size_t{16777216}}) {
    CHECK(std::fabs(slow.at(t) * (1 - std::pow(0.9999999, static_cast<double>(t))) - 1) < 1e-8);
  }
}

TEST(elementary) {
  for (double x = 1e-45; x < 3e38; x *= 1.37) {
    CHECK(std::fabs(fleet::natural_log(x) - std::log(x)) <= 1e-15 * std::fabs(std::log(x)) + 1e-16);
    for (const double exponent : {0.3, 0.5, 1.0, -0.7}) {
      CHECK(std::fabs(fleet::power(x, exponent) / std::pow(x, exponent) - 1) < 1e-13);
    }
  }
  for (double x = -690; x < 690; x += 0.77) CHECK(std::fabs(fleet::exponential(x) / std::exp(x) - 1) < 1e-13);
  CHECK(fleet::power(0, 0.5) == 0 && fleet::power(0, 0) == 1 && std::isnan(fleet::power(std::nan(""), 0.5)));
}
