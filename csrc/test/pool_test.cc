#include <vector>

#include "check.h"
#include "pool/bags.h"
#include "pool/gather.h"
#include "pool/weighted.h"
#include "threads/team.h"

namespace {

constexpr std::size_t kNumRows = 50;
constexpr float kUntouched = -7.0f;

const std::size_t kWidths[] = {0, 1, 2, 3, 4, 5, 8, 10, 11, 16, 32, 33, 64, 100};

// Small integers: sums are exact, whatever their order.
std::vector<float> numbers(std::size_t n) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<float>(i * 7 % 101) - 50.0f;
  return out;
}

std::vector<std::int64_t> indices(std::size_t n) {
  std::vector<std::int64_t> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::int64_t>(i * i % kNumRows);
  return out;
}

void check_gather(std::size_t width, std::size_t num_slots, std::size_t batch, std::size_t gap) {
  const std::vector<float> rows = numbers(kNumRows * width);
  const std::vector<std::int64_t> inverse = indices(num_slots * batch);
  const std::size_t columns = num_slots * width, stride = columns + gap;
  const fleet::Places places{inverse.data(), num_slots, batch, static_cast<std::ptrdiff_t>(stride)};

  std::vector<float> out(batch * stride, kUntouched);
  fleet::gather({rows.data(), kNumRows, width}, places, out.data());
  std::vector<float> grad_rows(kNumRows * width, 1.0f), expected = grad_rows;
  const std::vector<float> grad_out = numbers(batch * stride);
  fleet::scatter(grad_out.data(), places, {grad_rows.data(), kNumRows, width});

  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t c = 0; c < columns; ++c) {
      const auto row = static_cast<std::size_t>(inverse[c / width * batch + b]);
      CHECK(out[b * stride + c] == rows[row * width + c % width]);
      expected[row * width + c % width] += grad_out[b * stride + c];
    }
    for (std::size_t c = columns; c < stride; ++c) CHECK(out[b * stride + c] == kUntouched);
  }
  CHECK(grad_rows == expected);
}

void check_bags(std::size_t width, const std::vector<std::int64_t>& starts, std::size_t n, bool last, bool mean) {
  const std::vector<float> rows = numbers(kNumRows * width);
  const std::vector<std::int64_t> inverse = indices(n);
  const std::size_t num_bags = starts.size() - (last ? 1 : 0), stride = width + 3;
  const fleet::Bags bags{inverse.data(), n, starts.data(), starts.size(), num_bags, mean};
  CHECK(fleet::starts_ascend(bags));

  std::vector<float> out(num_bags * stride, kUntouched), expected_out = out;
  fleet::pool_bags({rows.data(), kNumRows, width}, bags, out.data(), static_cast<std::ptrdiff_t>(stride));
  std::vector<float> grad_rows(kNumRows * width, 1.0f), expected = grad_rows;
  const std::vector<float> grad_out = numbers(num_bags * stride);
  fleet::unpool_bags(grad_out.data(), static_cast<std::ptrdiff_t>(stride), bags, {grad_rows.data(), kNumRows, width});

  for (std::size_t b = 0; b < num_bags; ++b) {
    const auto begin = static_cast<std::size_t>(starts[b]);
    const auto end = b + 1 < starts.size() ? static_cast<std::size_t>(starts[b + 1]) : n;
    const float divisor = mean && end > begin ? static_cast<float>(end - begin) : 1.0f;
    for (std::size_t d = 0; d < width; ++d) {
      float sum = 0.0f;
      for (std::size_t i = begin; i < end; ++i) {
        const auto row = static_cast<std::size_t>(inverse[i]);
        sum += rows[row * width + d];
        expected[row * width + d] += grad_out[b * stride + d] / divisor;
      }
      expected_out[b * stride + d] = sum / divisor;
    }
  }
  CHECK(out == expected_out);
  CHECK(grad_rows == expected);
}

void check_weighted(std::size_t width, const std::vector<std::int64_t>& starts, std::size_t n, bool last) {
  const std::vector<float> rows = numbers(kNumRows * width), weights = numbers(n);
  const std::vector<std::int64_t> inverse = indices(n);
  const std::size_t num_bags = starts.size() - (last ? 1 : 0), stride = width + 3;
  const auto step = static_cast<std::ptrdiff_t>(stride);
  const fleet::Bags bags{inverse.data(), n, starts.data(), starts.size(), num_bags, false};
  std::vector<float> out(num_bags * stride, kUntouched), expected_out = out;
  fleet::pool_weighted({rows.data(), kNumRows, width}, bags, weights.data(), out.data(), step);
  const std::vector<float> grad_out = numbers(num_bags * stride);
  std::vector<float> grad_rows(kNumRows * width, 1.0f), expected = grad_rows;
  fleet::unpool_weighted(grad_out.data(), step, bags, weights.data(), {grad_rows.data(), kNumRows, width});
  std::vector<float> grad_weights(n, kUntouched), expected_weights = grad_weights;
  fleet::grade_weights(grad_out.data(), step, bags, {rows.data(), kNumRows, width}, grad_weights.data());

  for (std::size_t b = 0; b < num_bags; ++b) {
    for (std::size_t d = 0; d < width; ++d) expected_out[b * stride + d] = 0.0f;
    const auto end = b + 1 < starts.size() ? static_cast<std::size_t>(starts[b + 1]) : n;
    for (auto i = static_cast<std::size_t>(starts[b]); i < end; ++i) {
      const auto row = static_cast<std::size_t>(inverse[i]) * width;
      expected_weights[i] = 0.0f;
      for (std::size_t d = 0; d < width; ++d) {
        expected_out[b * stride + d] += weights[i] * rows[row + d];
        expected[row + d] += weights[i] * grad_out[b * stride + d];
        expected_weights[i] += rows[row + d] * grad_out[b * stride + d];
      }
    }
  }
  CHECK(out == expected_out);
  CHECK(grad_rows == expected);
  CHECK(grad_weights == expected_weights);
}

}  // namespace

TEST(pool_weighted_bags) {
  for (const std::size_t width : kWidths) {
    check_weighted(width, {0, 0, 3, 4, 4, 20}, 20, false);
    check_weighted(width, {0, 0, 3, 4, 4, 12}, 20, true);
    check_weighted(width, {0}, 0, true);
  }
}

// Padding is a row of zeros that a mean does not count.
TEST(pool_means_without_padding) {
  const std::vector<float> rows = {1, 2, 3, 5, 0, 0};
  const std::vector<std::int64_t> inverse = {0, 2, 1, 2, 2}, starts = {0, 3};
  const fleet::Bags bags{inverse.data(), 5, starts.data(), 2, 2, true, 2};
  std::vector<float> out(4), grad_rows(6);
  fleet::pool_bags({rows.data(), 3, 2}, bags, out.data(), 2);
  CHECK(out == (std::vector<float>{2.0f, 3.5f, 0.0f, 0.0f}));
  const std::vector<float> grad_out = {2, 4, 6, 8};
  fleet::unpool_bags(grad_out.data(), 2, bags, {grad_rows.data(), 3, 2});
  grad_rows.resize(4);
  CHECK(grad_rows == (std::vector<float>{1.0f, 2.0f, 1.0f, 2.0f}));
}

TEST(pool_all_below) {
  constexpr std::int64_t kMin = INT64_MIN, kMax = INT64_MAX;
  CHECK(fleet::all_below(nullptr, 0, 0));
  const std::int64_t zero = 0;
  CHECK(!fleet::all_below(&zero, 1, 0));
  CHECK(fleet::all_below(&zero, 1, 1));
  for (const std::int64_t bad : {kMin, kMin + 1, std::int64_t{-1}, std::int64_t{50}, kMax}) {
    for (const std::size_t where : {0u, 1u, 7u, 18u}) {
      std::vector<std::int64_t> index = indices(19);
      CHECK(fleet::all_below(index.data(), index.size(), kNumRows));
      index[where] = bad;
      CHECK(!fleet::all_below(index.data(), index.size(), kNumRows));
    }
  }
}

TEST(pool_gather_and_scatter) {
  for (const std::size_t width : kWidths) {
    for (const std::size_t num_slots : {1u, 3u, 26u}) {
      for (const std::size_t batch : {0u, 1u, 40u}) {
        for (const std::size_t gap : {0u, 5u}) check_gather(width, num_slots, batch, gap);
      }
    }
  }
  const fleet::Places nothing{nullptr, 0, 4, 0};
  fleet::gather({nullptr, 0, 8}, nothing, nullptr);
  fleet::scatter(nullptr, nothing, {nullptr, 0, 8});
}

// More rows than a cache holds: the way that asks for them in advance.
TEST(pool_gather_many_rows) {
  constexpr std::size_t kMany = 40000, kWidth = 10, kBatch = 1000, kSlots = 4;
  const std::vector<float> rows = numbers(kMany * kWidth);
  std::vector<std::int64_t> inverse(kSlots * kBatch);
  for (std::size_t i = 0; i < inverse.size(); ++i) inverse[i] = static_cast<std::int64_t>(i * 7919 % kMany);
  std::vector<float> out(inverse.size() * kWidth);
  fleet::gather({rows.data(), kMany, kWidth}, {inverse.data(), kSlots, kBatch, kSlots * kWidth}, out.data());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t place = i / kWidth, b = place / kSlots, s = place % kSlots;
    CHECK(out[i] == rows[static_cast<std::size_t>(inverse[s * kBatch + b]) * kWidth + i % kWidth]);
  }
  std::vector<std::int64_t> starts(kBatch);
  for (std::size_t b = 0; b < kBatch; ++b) starts[b] = static_cast<std::int64_t>(b * kSlots);
  const fleet::Bags bags{inverse.data(), inverse.size(), starts.data(), kBatch, kBatch, false};
  std::vector<float> sums(kBatch * kWidth);
  fleet::pool_bags({rows.data(), kMany, kWidth}, bags, sums.data(), kWidth);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    float sum = 0.0f;
    for (std::size_t j = i / kWidth * kSlots; j < (i / kWidth + 1) * kSlots; ++j) {
      sum += rows[static_cast<std::size_t>(inverse[j]) * kWidth + i % kWidth];
    }
    CHECK(sums[i] == sum);
  }
}

TEST(pool_bags) {
  for (const std::size_t width : kWidths) {
    for (const bool mean : {false, true}) {
      check_bags(width, {}, 0, false, mean);
      check_bags(width, {0}, 0, true, mean);
      check_bags(width, {0, 0, 0}, 0, false, mean);
      check_bags(width, {0, 0, 3, 4, 4, 20}, 20, false, mean);
      check_bags(width, {0, 0, 3, 4, 4, 12, 20}, 20, true, mean);
      check_bags(width, {0, 5}, 20, true, mean);
    }
  }
}

TEST(pool_bags_that_cannot_be) {
  const auto ascend = [](std::vector<std::int64_t> starts) {
    return fleet::starts_ascend({nullptr, 9, starts.data(), starts.size(), starts.size(), false});
  };
  CHECK(ascend({0, 9, 9}));
  CHECK(!ascend({1}));
  CHECK(!ascend({-1, 2}));
  CHECK(!ascend({0, 10}));
  CHECK(!ascend({0, 10, 5}));
  CHECK(!ascend({0, 5, 4}));
  CHECK(!ascend({0, INT64_MIN}));
}

TEST(pool_on_threads) {
  constexpr std::size_t kSlots = 5, kBatch = 20000, kManyRows = 3000;
  for (const std::size_t width : {1u, 10u, 33u}) {
    for (const std::size_t gap : {0u, 2u}) {
      const std::size_t stride = kSlots * width + gap;
      std::vector<std::int64_t> inverse(kSlots * kBatch);
      for (std::size_t i = 0; i < inverse.size(); ++i) inverse[i] = static_cast<std::int64_t>(i * i % kManyRows);
      const std::vector<float> rows = numbers(kManyRows * width);
      for (const std::size_t slots : {std::size_t{1}, kSlots}) {
        const fleet::Places places{inverse.data(), slots, kBatch, static_cast<std::ptrdiff_t>(stride)};
        std::vector<float> outs[2];
        for (const std::size_t size : {1u, 4u}) {
          fleet::Team::set_shared_size(size);
          std::vector<float>& out = outs[size / 4];
          out.assign(kBatch * stride, kUntouched);
          fleet::gather({rows.data(), kManyRows, width}, places, out.data());
        }
        CHECK(outs[0] == outs[1]);
      }
    }
  }
}
