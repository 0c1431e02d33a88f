#include <cmath>

#include "tables.h"

namespace {

const Setup kClicks{"sgd", {}, "show_click", {{"threshold", 1}, {"nonclk_coeff", 0.5}, {"click_coeff", 1}}};

Keys keys_of(const Holding& held) {
  Keys keys;
  for (const auto& each : held.rows) keys.push_back(each.first);
  return keys;
}

}  // namespace

TEST(shrink_by_unseen_steps) {
  Setup setup{"adagrad", {}, "count_filter", {{"count", 2}}};
  auto table = make_table(setup);
  push_ones(*table, {1, 2, 10}, {5, 0.5, {2, 2, 1}});
  push_ones(*table, {2, 3, 11}, {8, 0.5, {2, 2, 1}});
  CHECK(table->shrink({}) == 0 && table->shrink({8, 3}) == 0 && table->num_waiting() == 2);
  CHECK(table->shrink({9, 3}) == 1);  // not for more than 3 steps: those of step 5
  CHECK(keys_of(holding_of(*table)) == (Keys{2, 3}) && table->num_waiting() == 1);
  CHECK(table->shrink({3, 1}) == 0);  // a loaded table may be ahead
  CHECK(pull(*table, {1}) == Floats(3, 0));
  push_ones(*table, {1}, {9, 0.5, {2}});  // begins anew
  CHECK(pull(*table, {1}) == first_value(setup, 1) && holding_of(*table).rows.at(1).seen == 2);
}

TEST(shrink_by_score) {
  auto table = make_table(kClicks);
  // Scores: 1: 2 * 0.5 = 1; 2: 1 * 0.5 + 3 = 3.5; 3: waits with 0.5
  push_ones(*table, {1, 2, 3}, {1, 0.5, {}, {2, 4, 1}, {0, 3, 0}});
  CHECK(table->size() == 2 && table->num_waiting() == 1);
  CHECK(table->shrink({1, 0, true, 0.5, 0}) == 0 && table->num_waiting() == 1);
  CHECK(table->shrink({1, 0, true, 0.75, 0}) == 0 && table->num_waiting() == 0);
  CHECK(table->shrink({1, 0, true, 1, 0}) == 0);    // not below
  CHECK(table->shrink({1, 0, true, 1, 0.5}) == 1);  // decays first
  const Holding held = holding_of(*table);
  CHECK(keys_of(held) == Keys{2} && held.rows.at(2).shows == 2 && held.rows.at(2).clicks == 1.5f);
  CHECK(table->shrink({100, 0, false, 1000, 0.5}) == 0);  // decay alone deletes nothing
  CHECK(holding_of(*table).rows.at(2).shows == 1);
  // A table without clicks has no scores.
  auto plain = make_table({});
  push_ones(*plain, {1});
  CHECK(plain->shrink({1, 0, true, 1000, 0.5}) == 0 && plain->size() == 1);
}

TEST(shrink_gives_memory_back) {
  Setup setup;
  auto table = make_table(setup);
  push_ones(*table, random_keys(50000, 1), {1});
  push_ones(*table, random_keys(1000, 2), {9});
  CHECK(table->shrink({10, 5}) == 50000);
  CHECK(table->size() == 1000 && table->bytes() < 1000 * (12 + 24) + 64 * 512);
  const Keys again = random_keys(3000, 3);
  push_ones(*table, again, {10});
  for (const std::int64_t key : again) CHECK(pull(*table, {key})[0] == first_value(setup, key)[0] - 0.5f);
}

TEST(ceiling_evicts_what_was_pushed_least_recently) {
  for (const std::size_t width : {1, 16}) {
    Setup setup;
    setup.rule = "adagrad";
    setup.width = width;
    const std::size_t each = width * 8 + 8 + 17;
    setup.max_bytes = 20000 * each;
    auto table = make_table(setup);
    const Keys hot = random_keys(2000, 999);  // pushed at every step
    std::size_t evicted = 0, created = 0;
    for (std::uint32_t step = 1; step <= 60; ++step) {
      for (const Keys& keys : {hot, random_keys(1000, step)}) {
        const fleet::Pushed done = push_ones(*table, keys, {step});
        evicted += done.evicted;
        created += done.created;
      }
      CHECK(table->bytes() <= setup.max_bytes && table->size() == created - evicted);
    }
    CHECK(evicted > 40000 && table->bytes() > setup.max_bytes * 3 / 4);
    std::vector<std::uint8_t> found(hot.size());
    table->find(hot.data(), hot.size(), found.data());
    for (const std::uint8_t is_there : found) CHECK(is_there == 1);
    // In each shard the rows that are left are the newest.
    for (std::size_t s = 0; s < fleet::Table::kShards; ++s) {
      const fleet::Rows rows = table->dump(s, s + 1);
      std::map<std::uint32_t, std::size_t> steps;
      for (const std::uint32_t step : rows.marks.step) ++steps[step];
      const std::uint32_t oldest = steps.begin()->first;
      for (std::uint32_t step = oldest; step <= 60; ++step) CHECK(steps[step] > 0);
      CHECK(oldest > 30);
    }
    // A row that was evicted begins anew.
    const std::int64_t gone = random_keys(1, 1)[0];
    CHECK(pull(*table, {gone}) == first_value(setup, gone));
  }
}

TEST(ceiling_counts_keys_that_wait) {
  Setup setup{"sgd", {}, "count_filter", {{"count", 2}}};
  setup.max_bytes = std::size_t{1} << 20;
  auto table = make_table(setup);
  const Keys known = random_keys(1000, 1);
  push_ones(*table, known, {1, 0.5, Counts(1000, 2)});
  for (std::uint32_t step = 2; step < 100; ++step) {
    push_ones(*table, random_keys(3000, step), {step});
    CHECK(table->bytes() <= setup.max_bytes);
  }
  CHECK(table->size() == 1000 && table->num_waiting() > 0);  // those that wait go first, and no row goes for them
}

TEST(ceiling_too_low_for_anything) {
  for (const std::size_t max_bytes : {1, 63, 64, 5000}) {
    Setup setup;
    setup.max_bytes = max_bytes;
    auto table = make_table(setup);
    for (std::uint32_t step = 1; step < 20; ++step) push_ones(*table, random_keys(500, step), {step});
    CHECK(table->bytes() <= max_bytes);
  }
}

TEST(shards_that_stay_as_they_are) {
  // What half of the shards have and the other half has not: all have it once in the end.
  constexpr std::uint64_t kEven = 0x5555555555555555u;
  Setup ceiling{"adagrad"};
  ceiling.max_bytes = 64 * 3000;
  for (const Setup& setup : {ceiling, Setup{"adagrad", {}, "count_filter", {{"count", 2}}}}) {
    auto whole = make_table(setup), halves = make_table(setup);
    fleet::Pushed once, parts;
    const auto add = [](fleet::Pushed& sum, const fleet::Pushed& one) {
      sum.created += one.created;
      sum.waiting += one.waiting;
      sum.skipped += one.skipped;
      sum.evicted += one.evicted;
    };
    for (std::uint32_t step = 1; step <= 12; ++step) {
      const Keys keys = random_keys(1500, step % 4);
      Floats grads(keys.size() * setup.width, 1);
      grads[0] = grads[300] = std::numeric_limits<float>::quiet_NaN();
      Extra extra;
      extra.step = step;
      extra.skip_nonfinite = true;
      add(once, push(*whole, keys, grads, extra));
      for (const std::uint64_t skipped : {kEven, ~kEven, ~std::uint64_t{0}}) {
        extra.skip_shards = skipped;
        add(parts, push(*halves, keys, grads, extra));
      }
      CHECK(holding_of(*halves) == holding_of(*whole));
    }
    CHECK(once.created == parts.created && once.waiting == parts.waiting && once.created > 0);
    CHECK(once.skipped == parts.skipped && once.skipped == 24);
    CHECK(once.evicted == parts.evicted && (once.evicted > 0) == (setup.max_bytes > 0));
    fleet::ShrinkRule rule;
    rule.now = 13;
    rule.unseen_steps = 2;
    rule.skip_shards = kEven;
    const std::size_t odd = halves->shrink(rule);
    rule.skip_shards = ~kEven;
    const std::size_t even = halves->shrink(rule);
    rule.skip_shards = 0;
    CHECK(halves->shrink(rule) == 0 && odd > 0 && even > 0 && whole->shrink(rule) == odd + even);
    CHECK(whole->size() > 0 && holding_of(*halves) == holding_of(*whole));
  }
}
