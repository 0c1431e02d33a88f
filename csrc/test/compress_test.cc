#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "check.h"
#include "compress/topk.h"

namespace {

struct Arrays {
  std::vector<float> grad, weight, momentum, sum;
};

struct Sent {
  std::vector<std::int32_t> index;
  std::vector<float> value;
};

// Few distinct numbers, so that many are equal, and a small share of them large.
float number(std::size_t i, std::size_t salt) {
  const std::size_t x = (i + 1) * 2654435761u * (salt + 1) % 9973;
  return (static_cast<float>(x % 200) - 100.0f) * (x % 50 == 0 ? 0.5f : 0.001f);
}

Arrays arrays(std::size_t n) {
  Arrays a{std::vector<float>(n), std::vector<float>(n), std::vector<float>(n), std::vector<float>(n)};
  for (std::size_t i = 0; i < n; ++i) {
    a.grad[i] = number(i, 0), a.weight[i] = number(i, 1), a.momentum[i] = number(i, 2), a.sum[i] = number(i, 3);
  }
  return a;
}

Sent run(Arrays& a, const fleet::Correction& c, std::size_t k, std::uint64_t seed) {
  Sent sent{std::vector<std::int32_t>(k), std::vector<float>(k)};
  const float* const weight = c.decay == 0 ? nullptr : a.weight.data();
  const fleet::Unsent unsent{a.grad.data(), weight, a.momentum.data(), a.sum.data(), a.sum.size()};
  const std::size_t count = fleet::compress(unsent, c, k, seed, sent.index.data(), sent.value.data());
  CHECK(count <= k);
  sent.index.resize(count);
  sent.value.resize(count);
  return sent;
}

// The same by sorting everything.
Sent slow(Arrays& a, const fleet::Correction& c, std::size_t k) {
  const std::size_t n = a.sum.size();
  for (std::size_t i = 0; i < n; ++i) {
    const float decay = c.decay * a.weight[i], scaled = c.scale * a.grad[i], d = scaled + decay;
    const float kept = c.mu * a.momentum[i];
    a.momentum[i] = kept + d;
    const float ahead = c.mu * a.momentum[i];
    a.sum[i] += c.nesterov ? d + ahead : a.momentum[i];
    a.grad[i] = 0;
  }
  std::vector<std::int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  const auto size = [&](std::int32_t i) {
    const float x = std::fabs(a.sum[static_cast<std::size_t>(i)]);
    return std::isnan(x) ? std::numeric_limits<float>::infinity() : x;
  };
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t x, std::int32_t y) { return size(x) > size(y); });
  order.resize(std::min(k, n));
  while (!order.empty() && size(order.back()) == 0) order.pop_back();
  std::sort(order.begin(), order.end());
  Sent sent{order, {}};
  for (const std::int32_t i : order) {
    const auto place = static_cast<std::size_t>(i);
    sent.value.push_back(a.sum[place]);
    a.sum[place] = a.momentum[place] = 0;
  }
  return sent;
}

void check_equal(std::size_t n, std::size_t k, const fleet::Correction& c, std::uint64_t seed) {
  Arrays fast = arrays(n), expected = arrays(n);
  for (std::size_t step = 0; step < 3; ++step) {
    const Sent sent = run(fast, c, k, seed + step), wanted = slow(expected, c, k);
    CHECK(sent.index == wanted.index);
    CHECK(sent.value == wanted.value);
    CHECK(fast.sum == expected.sum);
    CHECK(fast.momentum == expected.momentum);
    CHECK(fast.grad == std::vector<float>(n, 0.0f));
    for (std::size_t i = 0; i < n; ++i) fast.grad[i] = expected.grad[i] = number(i, 4 + step);
  }
}

}  // namespace

TEST(compress_equals_a_sort_of_everything) {
  for (const std::size_t n : {1, 63, 64, 65, 1000, 40000, 200003}) {
    for (const std::size_t k : {std::size_t{1}, n / 1000 + 1, n / 100 + 1, n / 4 + 1, n - 1, n, n + 5}) {
      check_equal(n, k, {1.0f, 0.0f, 0.9f, false}, n + k);
      check_equal(n, k, {0.5f, 0.01f, 0.9f, true}, n + k);
    }
  }
}

TEST(compress_of_nothing_but_zeroes_sends_nothing) {
  Arrays a = arrays(1000);
  for (auto* const x : {&a.grad, &a.momentum, &a.sum}) std::fill(x->begin(), x->end(), 0.0f);
  CHECK(run(a, {1.0f, 0.0f, 0.9f, false}, 10, 0).index.empty());
  a.grad[77] = -0.25f;
  CHECK(run(a, {1.0f, 0.0f, 0.9f, false}, 10, 0).index == std::vector<std::int32_t>{77});
}

// All large values in the places that no sample sees: too few are found at first.
TEST(compress_survives_a_sample_that_misleads) {
  const std::size_t n = 1 << 20, k = n / 1000;
  for (const std::size_t where : {std::size_t{0}, n - 2 * k}) {
    Arrays a{std::vector<float>(n, 0.0f), {}, std::vector<float>(n, 0.0f), std::vector<float>(n, 0.0f)};
    for (std::size_t i = 0; i < 2 * k; ++i) a.grad[where + i] = static_cast<float>(i + 1);
    const Sent sent = run(a, {1.0f, 0.0f, 0.9f, false}, k, 5);
    CHECK(sent.index.size() == k);
    CHECK(sent.index.front() == static_cast<std::int32_t>(where + k));
    CHECK(sent.value.back() == static_cast<float>(2 * k));
  }
}

TEST(compress_sends_what_is_not_a_number) {
  Arrays a = arrays(5000);
  a.grad[4321] = std::numeric_limits<float>::quiet_NaN();
  const Sent sent = run(a, {1.0f, 0.0f, 0.9f, false}, 1, 0);
  CHECK(sent.index == std::vector<std::int32_t>{4321});
  CHECK(std::isnan(sent.value[0]));
  CHECK(a.sum[4321] == 0);
}

TEST(take_largest_is_compress_without_momentum) {
  for (const std::size_t k : {0u, 1u, 50u, 4999u, 6000u}) {
    Arrays a = arrays(5000), b = a;
    std::fill(b.momentum.begin(), b.momentum.end(), 0.0f);
    const Sent wanted = run(b, {1.0f, 0.0f, 0.0f, false}, k, 3);
    Sent sent{std::vector<std::int32_t>(k), std::vector<float>(k)};
    const std::vector<float> grad = a.grad;
    const std::size_t count =
        fleet::take_largest(a.grad.data(), a.sum.data(), 5000, k, 3, sent.index.data(), sent.value.data());
    sent.index.resize(count);
    sent.value.resize(count);
    CHECK(sent.index == wanted.index && sent.value == wanted.value && a.sum == b.sum && a.grad == grad);
  }
}

// As a worker may write to places that it shares with a server: here what is written is the places themselves.
TEST(spread_reads_each_place_once) {
  std::vector<float> out(8, 7);
  const std::vector<std::int32_t> places = {2, 5};
  std::memcpy(out.data(), places.data(), 2 * sizeof(float));
  const std::vector<float> value = {1, 2};
  CHECK(fleet::spread(reinterpret_cast<const std::int32_t*>(out.data()), value.data(), 2, out.data(), 8));
  CHECK((out == std::vector<float>{0, 0, 1, 0, 0, 2, 0, 0}));
}

TEST(spread_is_the_way_back) {
  const std::vector<std::int32_t> index = {0, 3, 4};
  const std::vector<float> value = {1, 2, 3};
  std::vector<float> out(5, 7);
  CHECK(fleet::spread(index.data(), value.data(), 3, out.data(), 5));
  CHECK((out == std::vector<float>{1, 0, 0, 2, 3}));
  for (const std::vector<std::int32_t>& wrong :
       {std::vector<std::int32_t>{0, 3, 5}, {0, 3, 3}, {3, 1, 4}, {-1, 3, 4}}) {
    CHECK(!fleet::spread(wrong.data(), value.data(), 3, out.data(), 5));
    CHECK(out[3] == 2);
  }
}
