// A table that was copied in the middle goes on as the other does: the same rows, bytes and marks, whatever was
// evicted.
#include <algorithm>

#include "tables.h"

namespace {

using fleet::Dtype;

constexpr std::uint32_t kSteps = 40;

std::vector<Setup> setups() {
  std::vector<Setup> all;
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16}) {
    for (const std::size_t max_bytes : {std::size_t{0}, std::size_t{64} * 1800, std::size_t{64} * 6000}) {
      Setup setup;
      setup.rule = "adagrad";
      setup.dtype = dtype;
      setup.max_bytes = max_bytes;
      all.push_back(setup);
      setup.entry = "count_filter";
      setup.entry_args = {{"count", 3}};
      all.push_back(setup);
      setup.entry = "show_click";
      setup.entry_args = {{"threshold", 2}, {"nonclk_coeff", 0.5}, {"click_coeff", 1}};
      all.push_back(setup);
      setup.entry = "probability";
      setup.entry_args = {{"probability", 0.4}};
      all.push_back(setup);
    }
  }
  return all;
}

// Rows of one step are many, so that ceilings cut between rows of the same age; every tenth step shrinks.
std::size_t go_on(fleet::Table& table, std::uint32_t step) {
  Keys keys = random_keys(700, step);
  for (const Keys& more : {random_keys(700, step / 3), random_keys(1500, 1000), random_keys(200, 2000 + step % 4)}) {
    keys.insert(keys.end(), more.begin(), more.end());
  }
  Extra extra;
  extra.step = step;
  for (std::size_t i = 0; i < keys.size(); ++i) extra.clicks.push_back(i % 3 == 0 ? 1.0f : 0.0f);
  const std::size_t evicted = push_ones(table, keys, extra).evicted;
  if (step % 10 == 0) table.shrink({step, 8, true, 0.7, 0.75});
  return evicted;
}

// Rows of a dump in another order.
fleet::Rows shuffled(const fleet::Rows& rows, const fleet::Format& format) {
  std::vector<std::size_t> order(rows.marks.keys.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937_64(3));
  fleet::Rows out = rows;
  const std::size_t bytes = format.width * format.value_size(), floats = format.state_width;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t from = order[i];
    out.marks.keys[i] = rows.marks.keys[from];
    out.marks.seen[i] = rows.marks.seen[from];
    out.marks.step[i] = rows.marks.step[from];
    if (!rows.marks.shows.empty()) {
      out.marks.shows[i] = rows.marks.shows[from];
      out.marks.clicks[i] = rows.marks.clicks[from];
    }
    std::copy_n(&rows.values[from * bytes], bytes, &out.values[i * bytes]);
    std::copy_n(&rows.state[from * floats], floats, &out.state[i * floats]);
  }
  return out;
}

}  // namespace

TEST(a_restored_table_goes_on_as_the_other_does) {
  std::size_t num_evicted = 0;
  for (const Setup& setup : setups()) {
    const auto whole = make_table(setup);
    std::vector<std::unique_ptr<fleet::Table>> copies;
    std::size_t evicted = 0;
    for (std::uint32_t step = 1; step <= kSteps; ++step) {
      evicted += go_on(*whole, step);
      for (const auto& copy : copies) go_on(*copy, step);
      if (step % 7 != 0) continue;
      copies.push_back(make_table(setup));
      for (std::size_t s = fleet::Table::kShards; s > 0; s -= 16) {
        copies.back()->restore(view_of(shuffled(whole->dump(s - 16, s), whole->format())), 0, 1);
      }
      CHECK(copies.back()->bytes() == whole->bytes());
    }
    if (setup.entry == "always") CHECK((evicted > 0) == (setup.max_bytes != 0));
    num_evicted += evicted;
    const Holding expected = holding_of(*whole);
    CHECK(!expected.rows.empty());
    for (const auto& copy : copies) CHECK(holding_of(*copy) == expected && copy->bytes() == whole->bytes());
  }
  CHECK(num_evicted > 100000);
}
