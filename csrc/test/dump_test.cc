#include "keys/hash.h"
#include "tables.h"

namespace {

using fleet::Dtype;

std::vector<Setup> setups() {
  std::vector<Setup> all;
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kFloat16, Dtype::kBfloat16}) {
    for (const char* rule : {"sgd", "adagrad", "adam"}) {
      Setup setup;
      setup.rule = rule;
      setup.dtype = dtype;
      all.push_back(setup);
      setup.entry = "count_filter";
      setup.entry_args = {{"count", 2}};
      all.push_back(setup);
      setup.entry = "show_click";
      setup.entry_args = {{"threshold", 2}, {"nonclk_coeff", 0.5}, {"click_coeff", 1.5}};
      all.push_back(setup);
    }
  }
  return all;
}

void train(fleet::Table& table, std::uint32_t steps) {
  for (std::uint32_t step = 1; step <= steps; ++step) {
    Keys keys = random_keys(800, step % 3);
    keys.insert(keys.end(), {kMinKey, kMaxKey, 0, -1});
    push_ones(table, keys, {step, 0.1, {}, {}, Floats(keys.size(), step % 2 == 0 ? 1.0f : 0.0f)});
  }
}

}  // namespace

TEST(dump_and_restore_into_other_servers) {
  for (const Setup& setup : setups()) {
    auto whole = make_table(setup);
    train(*whole, 4);
    const Holding expected = holding_of(*whole);
    CHECK(!expected.rows.empty() && expected.waiting.empty() != whole->entry().counts());
    // From one server to three, in pieces of some shards; then from three to one.
    std::vector<std::unique_ptr<fleet::Table>> parts;
    std::size_t taken = 0;
    for (std::uint32_t server = 0; server < 3; ++server) {
      parts.push_back(make_table(setup));
      for (std::size_t s = 0; s < fleet::Table::kShards; s += 24) {
        const std::size_t end = std::min(s + 24, fleet::Table::kShards);
        taken += parts.back()->restore(view_of(whole->dump(s, end)), server, 3);
      }
      for (const auto& each : holding_of(*parts.back()).rows) CHECK(fleet::server_of(each.first, 3) == server);
    }
    CHECK(taken == expected.rows.size());
    auto again = make_table(setup);
    for (const auto& part : parts) again->restore(view_of(part->dump(0, fleet::Table::kShards)), 0, 1);
    CHECK(holding_of(*again) == expected);
    // And it learns on as the other does.
    train(*whole, 2);
    train(*again, 2);
    CHECK(holding_of(*again) == holding_of(*whole));
  }
}

TEST(restore_replaces_rows) {
  const Setup setup{"adagrad", {}, "count_filter", {{"count", 2}}};
  auto table = make_table(setup), other = make_table(setup);
  push_ones(*table, {1, 2}, {4, 0.5, {2, 1}});
  push_ones(*other, {1, 2, 3}, {9, 0.5, {1, 5, 1}});
  // 1 has a row that the file lacks, 2 waits and has a row in the file, 3 is new.
  CHECK(table->restore(view_of(other->dump(0, fleet::Table::kShards)), 0, 1) == 1);
  const Holding held = holding_of(*table);
  CHECK(held.rows.size() == 2 && held.rows.at(1).step == 4 && held.rows.at(2).step == 9 && held.rows.at(2).seen == 5);
  CHECK(held.waiting.size() == 1 && held.waiting.at(3).step == 9);
  push_ones(*other, {2}, {10});
  table->restore(view_of(other->dump(0, fleet::Table::kShards)), 0, 1);
  CHECK(holding_of(*table).rows.at(2) == holding_of(*other).rows.at(2));
}

TEST(restore_of_many_pieces) {
  // Each piece needs a little more room: must not cost the square of the rows.
  Setup setup;
  setup.width = 1;
  auto table = make_table(setup);
  for (std::uint64_t piece = 0; piece < 300; ++piece) {
    auto part = make_table(setup);
    push_ones(*part, random_keys(500, piece));
    CHECK(table->restore(view_of(part->dump(0, fleet::Table::kShards)), 0, 1) == 500);
  }
  CHECK(table->size() == 150000 && table->bytes() <= 150000 * (4 + 24) + 64 * 512);
}

TEST(restore_keeps_the_ceiling) {
  Setup setup;
  setup.width = 4;
  auto large = make_table(setup);
  for (std::uint32_t step = 1; step <= 10; ++step) push_ones(*large, random_keys(4000, step), {step});
  setup.max_bytes = 10000 * 48;
  auto small = make_table(setup);
  CHECK(small->restore(view_of(large->dump(0, fleet::Table::kShards)), 0, 1) == 40000);
  CHECK(small->bytes() <= setup.max_bytes && small->size() > 7000);
  std::size_t newest = 0;
  for (const auto& each : holding_of(*small).rows) newest += each.second.step >= 8;
  CHECK(newest > small->size() * 95 / 100);
  push_ones(*small, {1, 2, 3}, {11});  // the index has shrunk as well: there is room
  CHECK(small->size() > 7000);
}

TEST(restore_of_a_key_twice_and_of_many_servers) {
  Setup setup{"adagrad", {}, "count_filter", {{"count", 2}}};
  auto table = make_table(setup), other = make_table(setup);
  const Keys keys = random_keys(20000, 7);
  push_ones(*table, keys, {3, 0.5, Counts(keys.size(), 2)});
  push_ones(*table, random_keys(9000, 8), {4});  // these wait
  fleet::Rows rows = table->dump(0, fleet::Table::kShards);
  const Holding expected = holding_of(*table);
  for (std::uint32_t server = 0; server < 5; ++server) other->restore(view_of(rows), server, 5);
  CHECK(holding_of(*other) == expected && other->newest_step() == 4);
  // The last of equal keys holds, in one block and in different ones.
  for (const std::size_t at : {std::size_t{1}, std::size_t{15000}}) rows.marks.keys[at] = rows.marks.keys[0];
  for (std::size_t i = 0; i < rows.marks.keys.size(); ++i) rows.marks.seen[i] = static_cast<std::uint32_t>(i);
  auto twice = make_table(setup);
  CHECK(twice->restore(view_of(rows), 0, 1) == keys.size() && twice->size() == keys.size() - 2);
  CHECK(holding_of(*twice).rows.at(rows.marks.keys[0]).seen == 15000);
}

TEST(newest_step_of_rows_and_of_keys_that_wait) {
  auto table = make_table({"sgd", {}, "count_filter", {{"count", 2}}});
  CHECK(table->newest_step() == 0);
  push_ones(*table, random_keys(300, 1), {7, 0.5, Counts(300, 2)});
  CHECK(table->newest_step() == 7);
  push_ones(*table, {5}, {9});
  push_ones(*table, random_keys(300, 1), {8});
  CHECK(table->num_waiting() == 1 && table->newest_step() == 9);
  CHECK(table->shrink({20, 11}) == 300 && table->newest_step() == 9);
  table->clear();
  CHECK(table->newest_step() == 0);
}
