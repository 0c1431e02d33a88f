// Tables in one line, and what they hold as plain maps.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "table/table.h"

using Keys = std::vector<std::int64_t>;
using Floats = std::vector<float>;
using Counts = std::vector<std::uint32_t>;

constexpr std::int64_t kMinKey = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMaxKey = std::numeric_limits<std::int64_t>::max();

struct Setup {
  std::string rule = "sgd";
  fleet::Args rule_args = {};
  std::string entry = "always";
  fleet::Args entry_args = {};
  std::size_t width = 3;
  fleet::Dtype dtype = fleet::Dtype::kFloat32;
  bool has_bounds = false;
  float low = 0;
  float high = 0;
  std::size_t max_bytes = 0;
  std::uint64_t seed = 5;
  std::string name = "ads";
  std::size_t memory_bytes = 0;
  std::string folder = "";
};

inline const fleet::Args kUniform = {{"low", -0.1}, {"high", 0.1}};

inline std::unique_ptr<fleet::Table> make_table(const Setup& setup) {
  fleet::TableOptions options;
  options.name = setup.name;
  options.width = setup.width;
  options.rule = fleet::make_rule(setup.rule, setup.rule_args);
  options.initializer = fleet::make_initializer("uniform", kUniform);
  options.entry = fleet::Entry(setup.entry, setup.entry_args);
  options.dtype = setup.dtype;
  options.has_bounds = setup.has_bounds;
  options.low = setup.low;
  options.high = setup.high;
  options.max_bytes = setup.max_bytes;
  options.seed = setup.seed;
  options.memory_bytes = setup.memory_bytes;
  options.folder = setup.folder;
  return std::make_unique<fleet::Table>(std::move(options));
}

// The first value of a key, as it is stored.
inline Floats first_value(const Setup& setup, std::int64_t key) {
  Floats values(setup.width);
  fleet::make_initializer("uniform", kUniform)
      ->fill(fleet::table_seed(setup.seed, setup.name), key, values.data(), setup.width);
  fleet::Format(setup.width, *fleet::make_rule(setup.rule, setup.rule_args), setup.dtype).round(values.data());
  return values;
}

inline Floats pull(const fleet::Table& table, const Keys& keys) {
  Floats out(keys.size() * table.format().width + 1, 99);
  table.pull(keys.data(), keys.size(), out.data());
  CHECK(out.back() == 99);
  out.pop_back();
  return out;
}

// What a push may say besides keys and gradients.
struct Extra {
  std::uint32_t step = 1;
  double lr = 0.5;
  Counts counts = {};
  Floats shows = {};
  Floats clicks = {};
  float scale = 1;
  bool skip_nonfinite = false;
  std::uint64_t skip_shards = 0;
};

// The text of the std::invalid_argument that `call` throws, or "".
template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    CHECK(text.find('\n') == std::string::npos);
    return text;
  }
  return "";
}

// A push; a check before it says the same.
inline fleet::Pushed push(fleet::Table& table, const Keys& keys, const Floats& grads, const Extra& extra = {}) {
  CHECK(grads.size() == keys.size() * table.format().width);
  const auto data = [](const auto& items) { return items.empty() ? nullptr : items.data(); };
  const fleet::Push request{keys.data(),       keys.size(),          grads.data(),     data(extra.counts),
                            data(extra.shows), data(extra.clicks),   extra.step,       extra.lr,
                            extra.scale,       extra.skip_nonfinite, extra.skip_shards};
  const std::string checked = refusal([&] { table.check(request); });
  fleet::Pushed done;
  const std::string pushed = refusal([&] { done = table.push(request); });
  CHECK(pushed == checked);
  if (!pushed.empty()) throw std::invalid_argument(pushed);
  return done;
}

// Gradients of ones.
inline fleet::Pushed push_ones(fleet::Table& table, const Keys& keys, const Extra& extra = {}) {
  return push(table, keys, Floats(keys.size() * table.format().width, 1), extra);
}

inline Keys random_keys(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Keys keys(n);
  for (auto& key : keys) key = static_cast<std::int64_t>(random());
  return keys;
}

// All that a table notes of a key.
struct Held {
  std::vector<std::byte> values;
  Floats state;
  std::uint32_t seen = 0;
  std::uint32_t step = 0;
  float shows = 0;
  float clicks = 0;

  bool operator==(const Held& other) const {
    return std::tie(values, state, seen, step, shows, clicks) ==
           std::tie(other.values, other.state, other.seen, other.step, other.shows, other.clicks);
  }
};

struct Holding {
  std::map<std::int64_t, Held> rows, waiting;

  bool operator==(const Holding& other) const { return rows == other.rows && waiting == other.waiting; }
};

inline Holding holding_of(const fleet::Rows& rows, const fleet::Format& format, bool has_clicks) {
  Holding out;
  const auto held = [&](const fleet::Marks& marks, std::size_t i) {
    CHECK(marks.seen.size() == marks.keys.size() && marks.step.size() == marks.keys.size());
    CHECK(marks.shows.size() == (has_clicks ? marks.keys.size() : 0) && marks.clicks.size() == marks.shows.size());
    Held one;
    one.seen = marks.seen[i];
    one.step = marks.step[i];
    if (has_clicks) std::tie(one.shows, one.clicks) = std::make_pair(marks.shows[i], marks.clicks[i]);
    return one;
  };
  const auto bytes = static_cast<std::ptrdiff_t>(format.width * format.value_size());
  const auto floats = static_cast<std::ptrdiff_t>(format.state_width);
  for (std::size_t i = 0; i < rows.marks.keys.size(); ++i) {
    const auto at = static_cast<std::ptrdiff_t>(i);
    Held one = held(rows.marks, i);
    one.values.assign(rows.values.begin() + at * bytes, rows.values.begin() + (at + 1) * bytes);
    one.state.assign(rows.state.begin() + at * floats, rows.state.begin() + (at + 1) * floats);
    CHECK(out.rows.emplace(rows.marks.keys[i], one).second);
  }
  for (std::size_t i = 0; i < rows.waiting.keys.size(); ++i) {
    CHECK(out.waiting.emplace(rows.waiting.keys[i], held(rows.waiting, i)).second);
  }
  return out;
}

inline Holding holding_of(const fleet::Table& table) {
  Holding out = holding_of(table.dump(0, fleet::Table::kShards), table.format(), table.entry().has_clicks());
  CHECK(out.rows.size() == table.size() && out.waiting.size() == table.num_waiting());
  return out;
}

inline fleet::RowsView view_of(const fleet::Rows& rows) {
  const auto marks = [](const fleet::Marks& m) -> fleet::RowsView::MarksView {
    return {m.keys.data(), m.keys.size(), m.seen.data(), m.step.data(), m.shows.data(), m.clicks.data()};
  };
  return {marks(rows.marks), rows.values.data(), rows.state.data(), marks(rows.waiting)};
}
