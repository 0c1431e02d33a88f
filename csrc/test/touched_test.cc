// Which keys a table notes for those who watch it.
#include <algorithm>
#include <atomic>
#include <thread>

#include "tables.h"

namespace {

struct Noted {
  Keys keys;
  bool is_all;
};

Noted touched(fleet::Table& table, std::size_t watcher, bool forget = true) {
  Noted found;
  found.is_all = !table.touched(watcher, forget, found.keys);
  std::sort(found.keys.begin(), found.keys.end());
  return found;
}

}  // namespace

TEST(touched_by_pushes_assigns_and_restores) {
  auto table = make_table({});
  push_ones(*table, {1, 2});
  const std::size_t first = table->watch();
  CHECK(touched(*table, first).keys.empty());
  push_ones(*table, {3, 1, kMinKey});
  const std::size_t second = table->watch();
  CHECK(first != second);
  const float values[6] = {};
  const Keys assigned{4, kMaxKey};
  table->assign(assigned.data(), assigned.size(), values);
  CHECK(touched(*table, first, false).keys == (Keys{kMinKey, 1, 3, 4, kMaxKey}));
  CHECK(touched(*table, first).keys == (Keys{kMinKey, 1, 3, 4, kMaxKey}));  // they were not forgotten
  CHECK(touched(*table, first).keys.empty() && touched(*table, second).keys == (Keys{4, kMaxKey}));
  auto other = make_table({});
  push_ones(*other, {7});
  const fleet::Rows rows = other->dump(0, fleet::Table::kShards);
  fleet::RowsView view{};
  view.marks = {rows.marks.keys.data(), 1, rows.marks.seen.data(), rows.marks.step.data(), nullptr, nullptr};
  view.values = rows.values.data();
  view.state = rows.state.data();
  table->restore(view, 0, 1);
  CHECK(touched(*table, second).keys == Keys{7});
  table->unwatch(second);
  push_ones(*table, {9});
  CHECK(table->watch() == second && touched(*table, second).keys.empty() &&
        touched(*table, first).keys == (Keys{7, 9}));
  table->clear();
  CHECK(touched(*table, first).is_all && touched(*table, second).is_all && !touched(*table, first).is_all);
}

TEST(touched_by_watchers_that_come_and_go_side_by_side) {
  auto table = make_table({});
  const Keys keys = random_keys(1000, 3);
  std::atomic<std::size_t> wrong = 0;
  std::vector<std::thread> threads;
  for (int each = 0; each < 3; ++each) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        const std::size_t watcher = table->watch();
        table->touch(watcher, keys.data(), keys.size());
        wrong += touched(*table, watcher).keys.size() != keys.size();
        table->unwatch(watcher);
      }
    });
  }
  for (std::thread& one : threads) one.join();
  CHECK(wrong == 0 && table->watch() == 0);
}

TEST(touched_by_what_deletes_rows) {
  auto table = make_table({"sgd", {}, "count_filter", {{"count", 2}}});
  push_ones(*table, {1, 2, 10}, {5, 0.5, {2, 2, 1}});
  push_ones(*table, {2}, {8, 0.5, {2}});
  const std::size_t watcher = table->watch();
  CHECK(table->shrink({9, 3}) == 1 && touched(*table, watcher).keys == (Keys{1, 10}));  // 10 only waited
  // Beyond the ceiling rows go; which ones is known.
  Setup setup;
  setup.max_bytes = 64 * 4096;
  auto small = make_table(setup);
  const std::size_t who = small->watch();
  push_ones(*small, random_keys(20000, 1), {1});
  const Keys all = touched(*small, who).keys;
  CHECK(all.size() == 20000 && small->size() < 20000);
  push_ones(*small, random_keys(20000, 2), {2});
  const Keys later = touched(*small, who).keys;
  CHECK(later.size() > 20000);
  std::vector<std::int64_t> gone;
  const fleet::Rows rows = small->dump_keys(later.data(), later.size(), gone);
  CHECK(rows.marks.keys.size() + gone.size() == later.size() && gone.size() > 0);
  // A decay changes the counters of every row.
  auto clicks = make_table({"sgd", {}, "show_click", {{"threshold", 1}, {"nonclk_coeff", 0.5}, {"click_coeff", 1}}});
  const std::size_t eye = clicks->watch();
  clicks->shrink({1, 0, false, 0, 0.5});
  CHECK(touched(*clicks, eye).is_all);
  clicks->shrink({1, 5, false, 0, 0});
  CHECK(!touched(*clicks, eye).is_all);
}

TEST(touched_keys_that_are_too_many_are_all) {
  auto table = make_table({});
  push_ones(*table, random_keys(64 * 10000, 3), {1});
  const std::size_t watcher = table->watch();
  push_ones(*table, random_keys(64 * 3000, 3), {2});
  CHECK(!touched(*table, watcher, false).is_all);
  push_ones(*table, random_keys(64 * 10000, 3), {3});
  const Noted all = touched(*table, watcher);
  CHECK(all.is_all && all.keys.size() < 64 * 4096);
  push_ones(*table, {5}, {4});
  CHECK(!touched(*table, watcher, false).is_all && touched(*table, watcher).keys == Keys{5});
}

TEST(touched_rows_are_copied_by_key) {
  auto table = make_table({"adagrad", {}, "count_filter", {{"count", 2}}});
  push_ones(*table, {1, 2, 3}, {5, 0.5, {2, 1, 2}});
  const Keys asked{1, 2, 99};
  std::vector<std::int64_t> gone;
  const fleet::Rows rows = table->dump_keys(asked.data(), asked.size(), gone);
  CHECK(rows.marks.keys.size() == 1 && rows.marks.keys[0] == 1 && rows.waiting.keys.size() == 1);
  CHECK(rows.waiting.keys[0] == 2 && gone == Keys{99} && rows.marks.seen[0] == 2 && rows.marks.step[0] == 5);
  CHECK(rows.values.size() == 3 * sizeof(float) && rows.state.size() == table->format().state_width);
}

TEST(touched_keys_that_go_and_come_again_stand_once) {
  auto table = make_table({"sgd", {}, "count_filter", {{"count", 2}}});
  const std::size_t watcher = table->watch();
  push_ones(*table, {1, 2}, {1, 0.5, {2, 1}});
  for (std::uint32_t step = 2; step < 40; step += 10) {
    CHECK(table->shrink({step + 5, 1}) == 1);  // and what waited has gone, too
    push_ones(*table, {1, 2}, {step + 6, 0.5, {2, 1}});
  }
  CHECK(touched(*table, watcher, false).keys == (Keys{1, 2}) && touched(*table, watcher).keys == (Keys{1, 2}));
  push_ones(*table, {1}, {90, 0.5, {2}});
  push_ones(*table, {3}, {90, 0.5, {2}});  // in the row of none before
  CHECK(touched(*table, watcher).keys == (Keys{1, 3}));
}

TEST(touched_rows_are_read_in_the_order_of_their_keys) {
  auto table = make_table({});
  push_ones(*table, {5, 1, 3});
  Keys keys{1, 2, 3, 4, 5}, gone;
  std::vector<float> rows(5 * 3), expected(3 * 3);
  CHECK(table->values_of(keys.data(), keys.size(), rows.data(), gone) == 3);
  const Keys there{1, 3, 5};
  table->pull(there.data(), there.size(), expected.data());
  keys.resize(3);
  rows.resize(9);
  CHECK(keys == there && rows == expected && gone == (Keys{2, 4}) && table->size() == 3);
}
