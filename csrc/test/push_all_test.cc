// The pushes of a step, at once and on threads, against a plain sum of them in their order.
#include <algorithm>
#include <cmath>

#include "table/finite.h"
#include "tables.h"
#include "threads/team.h"

namespace {

using fleet::Dtype;

struct Given {
  Keys keys;
  Floats grads;
  Counts counts;
  Floats shows, clicks;

  fleet::Push push(const Extra& extra) const {
    const auto data = [](const auto& items) { return items.empty() ? nullptr : items.data(); };
    return {keys.data(), keys.size(), grads.data(), data(counts),         data(shows),      data(clicks),
            extra.step,  extra.lr,    extra.scale,  extra.skip_nonfinite, extra.skip_shards};
  }
};

// Keys of three workers that share many; of some steps one lacks its counters, or comes unsorted, or with repeats.
std::vector<Given> givens(std::uint32_t step, std::size_t n, std::size_t width, bool bad) {
  std::mt19937_64 random(step);
  std::vector<Given> all(3);
  for (std::size_t w = 0; w < all.size(); ++w) {
    Given& one = all[w];
    for (std::size_t i = 0; i < n; ++i) one.keys.push_back(static_cast<std::int64_t>(random() % (2 * n)) << 30);
    if (step % 3 != 0 || w != 1) {
      std::sort(one.keys.begin(), one.keys.end());
      one.keys.erase(std::unique(one.keys.begin(), one.keys.end()), one.keys.end());
    }
    const std::size_t size = one.keys.size();
    for (std::size_t i = 0; i < size * width; ++i) {
      one.grads.push_back(static_cast<float>(static_cast<std::int64_t>(random() % 2001) - 1000) / 7000.0f);
      if (random() % 50 == 0) one.grads.back() = -0.0f;
    }
    if (bad) {
      for (std::size_t i = 0; i < 20; ++i) one.grads[random() % one.grads.size()] = i % 2 == 0 ? NAN : INFINITY;
    }
    for (std::size_t i = 0; i < size; ++i) {
      if (w != 0 || step % 2 == 0) one.counts.push_back(static_cast<std::uint32_t>(random() % 5 + 1));
      if (w == 2) one.shows.push_back(static_cast<float>(random() % 5) + 0.1f);
      if (w != 2) one.clicks.push_back(static_cast<float>(random() % 3) + 0.3f);
    }
  }
  return all;
}

// Added as one would without any thought of speed.
Given sum_of(const std::vector<Given>& all, std::size_t width, float scale) {
  struct Sum {
    Floats grads;
    std::uint32_t count = 0;
    float shows = 0, clicks = 0;
  };
  std::map<std::int64_t, Sum> sums;
  for (const Given& one : all) {
    for (std::size_t i = 0; i < one.keys.size(); ++i) {
      Sum& sum = sums[one.keys[i]];
      sum.grads.resize(width);
      for (std::size_t d = 0; d < width; ++d) sum.grads[d] += one.grads[i * width + d];
      const std::uint32_t times = one.counts.empty() ? 1 : one.counts[i];
      sum.count += times;
      sum.shows += one.shows.empty() ? static_cast<float>(times) : one.shows[i];
      if (!one.clicks.empty()) sum.clicks += one.clicks[i];
    }
  }
  Given out;
  for (const auto& [key, sum] : sums) {
    out.keys.push_back(key);
    for (const float g : sum.grads) out.grads.push_back(g * scale);
    out.counts.push_back(sum.count);
    out.shows.push_back(sum.shows);
    out.clicks.push_back(sum.clicks);
  }
  return out;
}

void check_same(const Setup& setup, std::size_t n, bool bad, std::uint64_t skip_shards) {
  const auto expected = make_table(setup), alone = make_table(setup), shared = make_table(setup);
  for (std::uint32_t step = 1; step <= 4; ++step) {
    const std::vector<Given> all = givens(step, n, setup.width, bad);
    Extra extra;
    extra.step = step;
    extra.skip_nonfinite = bad;
    extra.skip_shards = skip_shards;
    const fleet::Pushed wanted = expected->push(sum_of(all, setup.width, 1.0f / 3).push(extra));
    extra.scale = 1.0f / 3;
    std::vector<fleet::Push> pushes;
    for (const Given& one : all) pushes.push_back(one.push(extra));
    for (const std::size_t size : {1u, 4u}) {
      fleet::Team::set_shared_size(size);
      fleet::Table& table = size == 1 ? *alone : *shared;
      table.check_all(pushes.data(), pushes.size());
      const fleet::Pushed done = table.push_all(pushes.data(), pushes.size());
      CHECK(done.created == wanted.created && done.waiting == wanted.waiting);
      CHECK(done.skipped == wanted.skipped && done.evicted == wanted.evicted);
      CHECK(bad == (done.skipped > 0));
    }
    fleet::Team::set_shared_size(1);
  }
  CHECK(holding_of(*alone) == holding_of(*expected));
  CHECK(holding_of(*shared) == holding_of(*expected));
}

}  // namespace

TEST(push_all_is_a_push_of_the_sums) {
  Setup setup;
  setup.rule = "adagrad";
  for (const std::size_t n : {3u, 12000u}) check_same(setup, n, n > 3, 0);
  setup.dtype = Dtype::kBfloat16;
  check_same(setup, 12000, false, 0xff00ff00ff00ff0full);
  setup.max_bytes = std::size_t{64} * 6000;
  check_same(setup, 12000, false, 0);
  setup.entry = "show_click";
  setup.entry_args = {{"threshold", 2}, {"nonclk_coeff", 0.5}, {"click_coeff", 1}};
  setup.max_bytes = 0;
  check_same(setup, 12000, false, 0);
}

TEST(push_all_applies_all_or_nothing) {
  for (const std::size_t size : {1u, 4u}) {
    fleet::Team::set_shared_size(size);
    Setup setup;
    const auto table = make_table(setup);
    std::vector<Given> all = givens(1, 12000, setup.width, false);
    // Each is finite, their sum is not.
    for (Given& one : all) {
      one.keys[0] = std::int64_t{-5};
      one.grads[0] = std::numeric_limits<float>::max();
    }
    std::vector<fleet::Push> pushes;
    for (const Given& one : all) pushes.push_back(one.push({}));
    for (const auto& refused : {refusal([&] { table->check_all(pushes.data(), pushes.size()); }),
                                refusal([&] { table->push_all(pushes.data(), pushes.size()); })}) {
      CHECK(refused.find("table 'ads': the gradients of step 1 hold a NaN or an Inf; nothing was applied") == 0);
    }
    CHECK(table->size() == 0);
    CHECK(table->push_all(nullptr, 0).created == 0);
  }
  fleet::Team::set_shared_size(1);
}

TEST(finite_on_threads) {
  Floats values(std::size_t{3} << 20, 0.5f);
  for (const std::size_t size : {1u, 4u}) {
    fleet::Team::set_shared_size(size);
    CHECK(fleet::all_finite(values.data(), values.size()));
    for (const std::size_t at : {std::size_t{0}, std::size_t{1234567}, values.size() - 1}) {
      values[at] = NAN;
      CHECK(!fleet::all_finite(values.data(), values.size()));
      CHECK(std::isinf(fleet::largest(values.data(), values.size())));
      values[at] = -3.0f;
      CHECK(fleet::largest(values.data(), values.size()) == 3.0f);
      values[at] = 0.5f;
    }
  }
  fleet::Team::set_shared_size(1);
}
