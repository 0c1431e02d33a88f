#include "table/entry.h"

#include <cmath>

#include "tables.h"

namespace {

std::string error_of(const std::string& name, const fleet::Args& args) {
  return refusal([&] { fleet::Entry(name, args); });
}

const Setup kCount{"adagrad", {}, "count_filter", {{"count", 3}}};
const Setup kHalf{"adagrad", {}, "probability", {{"probability", 0.3}}};
const Setup kShowClick{"adagrad", {}, "show_click", {{"threshold", 2}, {"nonclk_coeff", 0.5}, {"click_coeff", 1.5}}};

}  // namespace

TEST(entry_messages) {
  CHECK(error_of("allways", {}) ==
        "there is no entry policy 'allways'; there are always, count_filter, probability and show_click");
  CHECK(error_of("always", {{"count", 1}}) == "entry always has no argument 'count'");
  CHECK(error_of("count_filter", {}) == "entry count_filter needs count");
  CHECK(error_of("count_filter", {{"count", -1}}) == "entry count_filter: count must be >= 0");
  CHECK(error_of("count_filter", {{"count", std::nan("")}}) == "entry count_filter: count must be a finite number");
  for (const double p : {0.0, 1.0, -0.5}) {
    CHECK(error_of("probability", {{"probability", p}}) == "entry probability: probability must be between 0 and 1");
  }
  CHECK(error_of("show_click", {{"threshold", 1}, {"nonclk_coeff", 1}}) == "entry show_click needs click_coeff");
}

// Zeros until a key is admitted; the gradient that came with the admission is skipped; then the initial value.
TEST(entry_admission) {
  for (const Setup& setup : {kCount, kShowClick}) {
    auto table = make_table(setup);
    const Keys keys{-7, 0, kMaxKey};
    const Floats zeros(9, 0);
    CHECK(pull(*table, keys) == zeros);
    for (std::uint32_t step = 1; step <= 3; ++step) {
      // show_click: three shows and one click are worth 2 * 0.5 + 1.5 = 2.5; two shows 0.5 * 2 = 1
      const fleet::Pushed done = push_ones(*table, keys, {step, 0.5, {}, {}, Floats(3, step == 3 ? 1.0f : 0.0f)});
      CHECK(done.waiting == 3 && done.created == (step == 3 ? 3 : 0) && done.skipped == 0 && done.evicted == 0);
      CHECK(table->num_waiting() == (step == 3 ? 0 : 3) && table->size() == (step == 3 ? 3 : 0));
      if (step < 3) CHECK(pull(*table, keys) == zeros);
    }
    Floats expected;
    for (const std::int64_t key : keys) {
      const Floats first = first_value(setup, key);
      expected.insert(expected.end(), first.begin(), first.end());
    }
    CHECK(pull(*table, keys) == expected);
    for (const auto& [key, held] : holding_of(*table).rows) {
      CHECK(held.seen == 3 && held.step == 3 && held.state == Floats(3, 0));
      if (setup.entry == "show_click") CHECK(held.shows == 3 && held.clicks == 1);
    }
    const fleet::Pushed done = push_ones(*table, keys, {4});
    CHECK(done.waiting == 0 && done.created == 0);
    for (float& value : expected) value -= 0.5f;  // adagrad's first step is the rate
    const Floats moved = pull(*table, keys);
    for (std::size_t i = 0; i < moved.size(); ++i) CHECK(std::fabs(moved[i] - expected[i]) < 1e-6f);
  }
}

TEST(entry_counts_occurrences) {
  auto table = make_table(kCount);
  push_ones(*table, {1, 2, 3, 4}, {1, 0.5, {1, 2, 3, 0xffffffffu}});
  CHECK(table->size() == 2 && table->num_waiting() == 2);
  push_ones(*table, {1, 2, 1}, {2});  // equal keys of one push count each
  CHECK(table->size() == 4 && table->num_waiting() == 0);
  const Holding held = holding_of(*table);
  CHECK(held.rows.at(1).seen == 3 && held.rows.at(2).seen == 3 && held.rows.at(3).seen == 3);
  CHECK(held.rows.at(4).seen == 0xffffffffu);
  push_ones(*table, {4, 4, 3}, {3, 0.5, {0xffffffffu, 2, 0xfffffffeu}});
  CHECK(holding_of(*table).rows.at(4).seen == 0xffffffffu && holding_of(*table).rows.at(3).seen == 0xffffffffu);
  // A count of none admits the first push of a key; its gradient is skipped all the same, for its reader saw zeros.
  Setup none = kCount;
  none.entry_args = {{"count", 0}};
  table = make_table(none);
  CHECK(push_ones(*table, {9}).created == 1 && pull(*table, {9}) == first_value(none, 9));
}

TEST(entry_shows_default_to_occurrences) {
  auto table = make_table(kShowClick);
  push_ones(*table, {1, 2}, {1, 0.5, {3, 4}});
  CHECK(table->size() == 1 && holding_of(*table).rows.at(2).shows == 4);
  push_ones(*table, {1}, {2, 0.5, {1}, {0.5f}});  // said explicitly: 3.5 shows are worth 1.75
  CHECK(table->size() == 1 && holding_of(*table).waiting.at(1).shows == 3.5f);
  CHECK(refusal([&] { push_ones(*table, {1}, {2, 0.5, {1}, {std::nanf("")}}); }) ==
        "table 'ads': the shows and clicks of step 2 hold a NaN or an Inf; nothing was applied");
}

TEST(entry_probability) {
  Keys keys(20000);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<std::int64_t>(i) - 100;
  auto table = make_table(kHalf), other = make_table(kHalf);
  push_ones(*table, keys, {1});
  CHECK(std::fabs(static_cast<double>(table->size()) / 20000 - 0.3) < 0.015 && table->num_waiting() == 0);
  // Neither the order nor the number of requests changes the verdict of a step.
  const Keys first(keys.begin(), keys.begin() + 77), rest(keys.begin() + 77, keys.end());
  push_ones(*other, rest, {1});
  push_ones(*other, first, {1});
  push_ones(*other, first, {1, 0.0});
  CHECK(other->size() == table->size());
  std::vector<std::uint8_t> found(keys.size()), also(keys.size());
  table->find(keys.data(), keys.size(), found.data());
  other->find(keys.data(), keys.size(), also.data());
  CHECK(found == also);
  push_ones(*table, keys, {2});  // drawn anew: 1 - 0.7^2
  CHECK(std::fabs(static_cast<double>(table->size()) / 20000 - 0.51) < 0.015);
  Setup seeded = kHalf;
  seeded.seed = 6;
  other = make_table(seeded);
  push_ones(*other, keys, {1});
  other->find(keys.data(), keys.size(), also.data());
  CHECK(found != also);
}
