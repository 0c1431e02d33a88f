// Every method of one table at once; the thread sanitizer watches.
#include <atomic>
#include <thread>

#include "tables.h"

namespace {

// Runs `work(turn)` some times in each of several threads.
template <class... Work>
void together(int turns, Work... work) {
  std::vector<std::thread> threads;
  const auto start = [&](auto each) {
    threads.emplace_back([=] {
      for (int turn = 0; turn < turns; ++turn) each(turn);
    });
  };
  (start(work), ...);
  for (auto& thread : threads) thread.join();
}

}  // namespace

TEST(table_threads_lose_no_push) {
  Setup setup;
  setup.rule = "sum";
  setup.width = 4;
  auto table = make_table(setup);
  const Keys keys = random_keys(3000, 1), fewer(keys.begin(), keys.begin() + 500);
  std::atomic<int> done{0};
  const auto add = [&](int) {
    push_ones(*table, keys);
    push_ones(*table, fewer);
    ++done;
  };
  const auto read = [&](int) {
    const int at_least = done;
    const Floats rows = pull(*table, keys);
    const Floats first = first_value(setup, keys[0]);
    CHECK(rows[0] - first[0] > static_cast<float>(2 * at_least) - 0.5f);
    for (std::size_t d = 1; d < 4; ++d) {  // never half of a push
      CHECK(std::abs((rows[d] - first[d]) - (rows[0] - first[0])) < 0.01f);
    }
  };
  together(20, add, add, add, read);
  const Holding held = holding_of(*table);
  CHECK(held.rows.size() == keys.size());
  for (const std::int64_t key : fewer) CHECK(held.rows.at(key).seen == 120);
}

TEST(table_threads_do_everything) {
  for (const char* entry : {"always", "count_filter", "show_click"}) {
    Setup setup;
    setup.rule = "adam";
    setup.dtype = fleet::Dtype::kBfloat16;
    setup.entry = entry;
    if (setup.entry == "count_filter") setup.entry_args = {{"count", 2}};
    if (setup.entry == "show_click") {
      setup.entry_args = {{"threshold", 2}, {"nonclk_coeff", 1}, {"click_coeff", 1}};
    }
    setup.max_bytes = 300000;
    auto table = make_table(setup);
    auto copy = make_table(setup);
    const auto train = [&](int turn) {
      const Keys keys = random_keys(1500, static_cast<std::uint64_t>(turn % 7));
      pull(*table, keys);
      push_ones(*table, keys, {static_cast<std::uint32_t>(turn + 1)});
    };
    const auto keep = [&](int) {
      const fleet::Rows rows = table->dump(0, fleet::Table::kShards);
      holding_of(rows, table->format(), table->entry().has_clicks());
      copy->restore(view_of(rows), 0, 1);
    };
    const auto tidy = [&](int turn) {
      table->shrink({static_cast<std::uint32_t>(turn), 3, false, 0, 0.9});
      if (turn == 7) table->clear();
      const Keys keys = random_keys(200, 1);
      table->assign(keys.data(), keys.size(), Floats(keys.size() * 3, 1).data());
      std::vector<std::uint8_t> found(keys.size());
      table->find(keys.data(), keys.size(), found.data());
      table->newest_step();
      CHECK(table->bytes() < 2 * setup.max_bytes && table->size() + table->num_waiting() < 20000);
    };
    together(15, train, train, keep, tidy);
    CHECK(holding_of(*table).rows.size() > 0);
  }
}

TEST(table_threads_restore_one_table) {
  const Setup setup{"adagrad", {}, "count_filter", {{"count", 2}}};
  auto table = make_table(setup), other = make_table(setup);
  for (std::uint32_t step = 1; step < 9; ++step) push_ones(*table, random_keys(5000, step % 5), {step});
  std::vector<fleet::Rows> pieces;
  for (std::size_t s = 0; s < fleet::Table::kShards; s += 2) pieces.push_back(table->dump(s, s + 2));
  std::atomic<std::size_t> next{0}, taken{0};
  const auto work = [&](int) {
    for (std::size_t i = next++; i < pieces.size(); i = next++) taken += other->restore(view_of(pieces[i]), 0, 1);
  };
  const auto read = [&](int) { pull(*other, random_keys(500, 1)); };
  together(1, work, work, work, read);
  CHECK(taken == table->size() && holding_of(*other) == holding_of(*table));
}
