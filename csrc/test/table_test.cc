// One contract, for every rule and every type of stored values.
#include "table/table.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "table/finite.h"
#include "tables.h"

namespace {

using fleet::Dtype;

struct Row {
  Floats values, state;
  std::uint32_t seen = 0;
};

// A table as one would write it without any thought of speed.
class Model {
 public:
  explicit Model(const Setup& setup)
      : setup_(setup),
        rule_(fleet::make_rule(setup.rule, setup.rule_args)),
        format_(setup.width, *rule_, setup.dtype) {}

  Floats pull(const Keys& keys) const {
    Floats out;
    for (const std::int64_t key : keys) {
      const auto found = rows_.find(key);
      const Floats row = found == rows_.end() ? first_value(setup_, key) : found->second.values;
      out.insert(out.end(), row.begin(), row.end());
    }
    return out;
  }

  std::size_t push(const Keys& keys, const Floats& grads, std::uint32_t step, double lr, float scale) {
    const std::size_t before = rows_.size();
    std::map<std::int64_t, std::pair<Floats, std::uint32_t>> sums;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      auto& [sum, count] = sums[keys[i]];
      sum.resize(setup_.width);
      for (std::size_t d = 0; d < setup_.width; ++d) sum[d] += grads[i * setup_.width + d];
      ++count;
    }
    for (auto& [key, sum] : sums) {
      Row& row = rows_[key];
      if (row.values.empty()) {
        row = {first_value(setup_, key), Floats(format_.state_width), 0};
        rule_->start(row.state.data(), setup_.width);
      }
      for (float& g : sum.first) g *= scale;
      rule_->apply(row.values.data(), row.state.data(), sum.first.data(), setup_.width, lr);
      for (float& v : row.values) {
        if (setup_.has_bounds) v = std::min(std::max(v, setup_.low), setup_.high);
      }
      std::vector<std::byte> stored(format_.row_bytes());
      const std::uint64_t seed = fleet::table_seed(setup_.seed, setup_.name);
      format_.store(row.values.data(), stored.data(), fleet::rounding_state(seed, key, step));
      format_.load(stored.data(), row.values.data());
      row.seen += sum.second;
    }
    return rows_.size() - before;
  }

  void check_same(const fleet::Table& table, std::uint32_t step) const {
    const Holding held = holding_of(table);
    CHECK(held.rows.size() == rows_.size() && held.waiting.empty());
    for (const auto& [key, row] : rows_) {
      const Held& other = held.rows.at(key);
      CHECK(other.seen == row.seen && other.step <= step);
      CHECK(row.state.empty() || std::memcmp(other.state.data(), row.state.data(), row.state.size() * 4) == 0);
      Floats values(setup_.width);
      format_.load(other.values.data(), values.data());
      CHECK(values == row.values);
    }
  }

 private:
  Setup setup_;
  std::unique_ptr<fleet::Rule> rule_;
  fleet::Format format_;
  std::map<std::int64_t, Row> rows_;
};

std::vector<Setup> setups() {
  std::vector<Setup> all;
  for (const std::string& rule : fleet::rule_names()) {
    for (const Dtype dtype : {Dtype::kFloat32, Dtype::kFloat16, Dtype::kBfloat16}) {
      Setup setup;
      setup.rule = rule;
      if (rule == "momentum") setup.rule_args = {{"lr", 0.1}, {"momentum", 0.9}};
      if (rule == "lars") setup.rule_args = {{"lr", 0.1}};
      setup.dtype = dtype;
      setup.width = 7;
      all.push_back(setup);
      setup.width = 1;
      setup.has_bounds = true;
      std::tie(setup.low, setup.high) = std::make_pair(-0.125f, 0.0625f);
      all.push_back(setup);
    }
  }
  return all;
}

Floats random_floats(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Floats out(n);
  for (float& value : out) value = static_cast<float>(random() % 2001) * 0.001f - 1;
  return out;
}

void check_contract(const Setup& setup) {
  auto table = make_table(setup);
  Model model(setup);
  Keys pool = random_keys(100, 1);
  pool.insert(pool.end(), {kMinKey, kMaxKey, 0, -1, 1});
  CHECK(pull(*table, pool) == model.pull(pool));
  CHECK(table->size() == 0 && table->bytes() == 0);  // a pull leaves no trace
  std::mt19937_64 random(2);
  for (std::uint32_t step = 1; step <= 4; ++step) {
    Keys keys;
    const bool as_a_worker = step % 2 == 0;  // distinct and ascending
    for (std::size_t i = 0; i < 80; ++i) keys.push_back(pool[random() % (step < 3 ? 30 : pool.size())]);
    if (as_a_worker) {
      std::sort(keys.begin(), keys.end());
      keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    }
    const Floats grads = random_floats(keys.size() * setup.width, step);
    const float scale = step < 3 ? 1.0f : 0.25f;
    const double lr = 0.1 / step;
    const fleet::Pushed done = push(*table, keys, grads, {step, lr, {}, {}, {}, scale});
    CHECK(done.created == model.push(keys, grads, step, lr, scale));
    CHECK(done.waiting == 0 && done.skipped == 0 && done.evicted == 0);
    CHECK(pull(*table, pool) == model.pull(pool));
    model.check_same(*table, step);
  }

  // What is not finite is refused whole, or left out row by row.
  const Holding before = holding_of(*table);
  const std::size_t w = setup.width;
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    Floats grads(3 * w, 1);
    grads[2 * w - 1] = bad;
    CHECK(refusal([&] { push(*table, {5, 6, 7}, grads, {9}); }) ==
          "table 'ads': the gradients of step 9 hold a NaN or an Inf; nothing was applied");
    CHECK(refusal([&] { push(*table, {7, 7, 5}, grads, {9}); }) != "");
    CHECK(holding_of(*table) == before);
  }
  Floats grads(3 * w, 0.5f);
  grads[2 * w - 1] = -INFINITY;
  fleet::Pushed done = push(*table, {5, 0, 7}, grads, {9, 0.1, {}, {}, {}, 1, true});
  CHECK(done.skipped == 1 && done.created == 2);
  model.push({5, 7}, Floats(2 * w, 0.5f), 9, 0.1, 1);
  model.check_same(*table, 9);
  done = push(*table, {8}, Floats(w, std::nanf("")), {9, 0.1, {}, {}, {}, 1, true});  // a new key: no row
  CHECK(done.skipped == 1 && done.created == 0);
  model.check_same(*table, 9);

  table->clear();
  CHECK(table->size() == 0 && pull(*table, pool) == Model(setup).pull(pool));
  push(*table, {3}, Floats(w, 1));  // the row is one that was used before
  Model fresh(setup);
  fresh.push({3}, Floats(w, 1), 1, 0.5, 1);
  fresh.check_same(*table, 1);
}

}  // namespace

TEST(table_contract) {
  for (const Setup& setup : setups()) check_contract(setup);
}

TEST(table_of_many_blocks) {
  // More keys than a block holds, in every shard, unsorted and with repeats.
  Setup setup;
  setup.rule = "adagrad";
  auto table = make_table(setup);
  Model model(setup);
  Keys keys = random_keys(30000, 4);
  for (std::size_t i = 0; i < 5000; ++i) keys.push_back(keys[i * 3]);
  for (std::uint32_t step = 1; step <= 2; ++step) {
    const Floats grads = random_floats(keys.size() * 3, step);
    push(*table, keys, grads, {step});
    model.push(keys, grads, step, 0.5, 1);
  }
  CHECK(pull(*table, keys) == model.pull(keys));
  std::size_t in_shards = 0;
  for (std::size_t s = 0; s < fleet::Table::kShards; ++s) {
    const fleet::Rows rows = table->dump(s, s + 1);
    CHECK(rows.marks.keys.size() > 300 && rows.marks.keys.size() < 700);
    for (const std::int64_t key : rows.marks.keys) CHECK(fleet::mix64(key) % fleet::Table::kShards == s);
    in_shards += rows.marks.keys.size();
  }
  CHECK(in_shards == 30000 && table->size() == 30000);
  CHECK(table->bytes() <= 30000 * (24 + 24) + 64 * 512);
}

TEST(table_refuses_sums_that_overflow) {
  auto table = make_table({});
  const float huge = std::numeric_limits<float>::max();
  CHECK(refusal([&] { push(*table, {1, 1}, Floats(6, huge)); }) != "" && table->size() == 0);
  CHECK(refusal([&] { push(*table, {1}, Floats(3, huge), {1, 0.5, {}, {}, {}, 4}); }) != "" && table->size() == 0);
  CHECK(push(*table, {1, 1, 2}, Floats(9, huge), {1, 0.5, {}, {}, {}, 1, true}).skipped == 1 && table->size() == 1);
  for (const double lr : {-0.1, std::nan(""), HUGE_VAL}) {
    CHECK(refusal([&] { push_ones(*table, {3}, {1, lr}); }) ==
          "table 'ads': the learning rate of step 1 must be finite and >= 0, and so must be its scale");
  }
  CHECK(refusal([&] { push_ones(*table, {3}, {1, 0.5, {}, {}, {}, NAN}); }) != "" && table->size() == 1);
  // A sum that leaves the range on its way and would come back.
  CHECK(refusal([&] { push(*table, {4, 4, 4}, {huge, 0, 0, huge, 0, 0, -huge, 0, 0}); }) != "");
  push(*table, {4, 4, 4}, {huge, 0, 0, -huge, 0, 0, huge, 0, 0}, {1, 0.0});
  push(*table, {4, 5}, Floats(6, huge), {1, 0.0});  // large, but of different keys
  push(*table, {4, 4}, Floats(6, huge / 2), {1, 0.0});
  const Floats shows = {1, NAN};
  for (const bool skip : {false, true}) {
    CHECK(refusal([&] { push_ones(*table, {1, 2}, {1, 0.5, {}, shows, {}, 1, skip}); }) ==
          "table 'ads': the shows and clicks of step 1 hold a NaN or an Inf; nothing was applied");
  }
}

TEST(largest_magnitude) {
  CHECK(fleet::largest(nullptr, 0) == 0);
  for (const std::size_t n : {1, 3, 4, 17, 100}) {
    for (std::size_t i = 0; i < n; ++i) {
      Floats values = random_floats(n, i);
      for (const float one : {2.5f, -2.5f, -INFINITY}) {
        values[i] = one;
        CHECK(fleet::largest(values.data(), n) == std::fabs(one));
      }
      for (const float nan : {NAN, -NAN}) {
        values[i] = nan;
        CHECK(fleet::largest(values.data(), n) == INFINITY && !fleet::all_finite(values.data(), n));
      }
    }
    CHECK(fleet::largest(Floats(n, -0.0f).data(), n) == 0);
  }
}

TEST(table_keeps_bounds_after_rounding) {
  // 0.1 is no number of either type, and rounds up in bfloat16.
  for (const Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16}) {
    for (const float direction : {1.0f, -1.0f}) {
      Setup setup;
      setup.dtype = dtype;
      setup.has_bounds = true;
      std::tie(setup.low, setup.high) = std::make_pair(-0.1f, 0.1f);
      auto table = make_table(setup);
      push(*table, {1}, Floats(3, direction), {1, 100});
      for (const float value : pull(*table, {1})) CHECK(std::fabs(value) <= 0.1f && std::fabs(value) > 0.099f);
      setup.low = 0.1f - 1e-6f;
      setup.high = 0.1f + 1e-6f;
      CHECK(refusal([&] { make_table(setup); }) == "table 'ads': no number of its dtype lies between the bounds");
    }
  }
}

TEST(table_step_never_goes_back) {
  auto table = make_table({});
  for (const std::uint32_t step : {7u, 3u}) push_ones(*table, {1}, {step});
  CHECK(holding_of(*table).rows.at(1).step == 7);
}

TEST(table_assign_and_find) {
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kFloat16}) {
    Setup setup{"adagrad", {}, "count_filter", {{"count", 3}}};
    setup.dtype = dtype;
    auto table = make_table(setup);
    push_ones(*table, {1, 2});  // both wait
    table->assign(Keys{kMinKey, 1, 1}.data(), 3, Floats{1, 2, 3, 4, 5, 6, 7, 8, 9}.data());
    CHECK(pull(*table, {1, kMinKey, 2}) == (Floats{7, 8, 9, 1, 2, 3, 0, 0, 0}));
    const Keys keys{1, 2, kMinKey};
    std::uint8_t found[4] = {9, 9, 9, 9};
    table->find(keys.data(), 3, found);
    CHECK(found[0] == 1 && found[1] == 0 && found[2] == 1 && found[3] == 9);
    CHECK(table->size() == 2 && table->num_waiting() == 1);  // a key that has a row waits no more
    push(*table, {1}, Floats(3, 2), {1, 0.5});
    CHECK(std::fabs(pull(*table, {1})[0] - 6.5f) < 0.01f);
    CHECK(holding_of(*table).rows.at(1).state == Floats(3, 4));
  }
}

TEST(table_messages) {
  Setup setup;
  setup.width = 0;
  CHECK(refusal([&] { make_table(setup); }) == "table 'ads': width must be >= 1");
  setup.width = std::size_t{1} << 62;
  CHECK(refusal([&] { make_table(setup); }) == "table 'ads': width must be <= 16777216");
  setup.width = 1;
  setup.has_bounds = true;
  CHECK(refusal([&] { make_table(setup); }) == "table 'ads': the lower bound must be below the upper one");
  CHECK(refusal([&] { fleet::dtype_of("float64"); }) == "dtype must be float32, float16 or bfloat16, got 'float64'");
}
