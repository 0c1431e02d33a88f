#include "data/clicks.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "check.h"

namespace {

fleet::data::ClickSettings settings(std::uint32_t vocabulary, double gap) {
  fleet::data::ClickSettings made;
  made.seed = 3;
  made.vocabularies.fill(vocabulary);
  made.gaps.fill(gap);
  return made;
}

TEST(clicks_have_the_rate_asked_for_and_ids_within_the_vocabulary) {
  for (const std::uint32_t vocabulary : {1u, 2u, 1000u, 1u << 31}) {
    const fleet::data::Clicks clicks(settings(vocabulary, 0.1));
    double rate = 0;
    for (std::uint64_t i = 0; i < 20000; ++i) {
      const fleet::data::Click click = clicks.sample(i);
      CHECK(click.probability > 0 && click.probability < 1);
      rate += click.is_click / 20000.0;
      for (const std::uint32_t rank : click.ranks) CHECK(rank < vocabulary || rank == fleet::data::Click::kGap);
    }
    CHECK(std::fabs(rate - 0.25) < 0.03);
  }
}

TEST(clicks_all_gaps_are_lines_of_tabs) {
  const fleet::data::Clicks clicks(settings(10, 1));
  const std::string text = clicks.text(0, 3);
  CHECK(text.size() == 3 * 41);
  CHECK(std::count(text.begin(), text.end(), '\t') == 3 * 39);
  const fleet::data::ClickColumns columns = clicks.columns(0, 9);
  for (const auto& column : columns.columns) CHECK(column.valid == std::vector<std::uint8_t>(2, 0));
}

TEST(clicks_of_the_far_end_are_made_as_those_of_the_beginning) {
  const fleet::data::Clicks clicks(settings(1000, 0));
  const std::uint64_t last = (std::uint64_t{1} << 62) + 5;
  std::vector<float> label(6), dense(6 * 13);
  std::vector<std::int64_t> ids(6 * 26);
  clicks.batch(last - 5, 6, label.data(), dense.data(), ids.data());
  const fleet::data::Click click = clicks.sample(last);
  CHECK(label[5] == (click.is_click ? 1.0f : 0.0f));
  for (std::size_t j = 0; j < 13; ++j) {
    CHECK(dense[5 * 13 + j] ==
          static_cast<float>(std::copysign(std::log1p(std::abs(click.numbers[j])), click.numbers[j])));
  }
}

TEST(clicks_codes_of_a_slot_differ) {
  std::set<std::uint32_t> seen;
  for (std::uint32_t rank = 0; rank < 100000; ++rank) seen.insert(fleet::data::click_code(7, rank));
  CHECK(seen.size() == 100000);
}

}  // namespace
