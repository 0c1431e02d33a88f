#include "compress/format.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "check.h"
#include "compress/half_wire.h"

namespace {

using fleet::Bfloat16;
using fleet::Float16;
using fleet::float_of;
using fleet::WireFormat;

using Bytes = std::vector<std::uint8_t>;
using Floats = std::vector<float>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMost = std::numeric_limits<float>::max();
constexpr WireFormat kAll[] = {WireFormat::kFloat32, WireFormat::kBfloat16, WireFormat::kFloat16, WireFormat::kInt8};

Bytes encoded(WireFormat format, const Floats& rows, std::size_t width) {
  Bytes out(rows.size() / width * fleet::row_bytes(format, width));
  fleet::encode_rows(format, rows.data(), rows.size() / width, width, out.data());
  return out;
}

Floats decoded(WireFormat format, const Bytes& data, std::size_t width) {
  const std::size_t n = data.size() / fleet::row_bytes(format, width);
  Floats rows(n * width);
  fleet::decode_rows(format, data.data(), n, width, rows.data());
  return rows;
}

Floats there_and_back(WireFormat format, const Floats& rows, std::size_t width) {
  return decoded(format, encoded(format, rows, width), width);
}

// Numbers of every size that a float has, denormal ones too.
Floats of_all_sizes(std::size_t n) {
  std::mt19937 bits(7);
  Floats values(n);
  for (float& value : values) {
    do value = float_of(static_cast<std::uint32_t>(bits()));
    while (!std::isfinite(value));
  }
  return values;
}

// The same bits, or both a NaN.
bool same(float a, float b) { return std::isnan(a) ? std::isnan(b) : fleet::bits_of(a) == fleet::bits_of(b); }

}  // namespace

TEST(every_half_survives_the_wire) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto stored = static_cast<std::uint16_t>(bits);
    CHECK(same(fleet::WireFloat16::load(stored), Float16::load(stored)));
    if (!std::isnan(Float16::load(stored))) CHECK(fleet::WireFloat16::store(Float16::load(stored)) == stored);
    if (!std::isnan(Bfloat16::load(stored))) CHECK(fleet::WireBfloat16::store(Bfloat16::load(stored)) == stored);
  }
}

TEST(halves_of_the_wire_round_as_tables_do) {
  for (const float value : of_all_sizes(200000)) {
    const bool fits = std::fabs(value) < 65520.0f;
    CHECK(fleet::WireFloat16::store(value) ==
          (fits ? Float16::store(value) : static_cast<std::uint16_t>(value < 0 ? 0xfbff : 0x7bff)));
    const std::uint16_t nearest = Bfloat16::store(value);
    const bool is_finite = (nearest & 0x7f80u) != 0x7f80u;
    CHECK(fleet::WireBfloat16::store(value) == (is_finite ? nearest : nearest - 1));
  }
}

TEST(ties_go_to_the_even_number) {
  // Between two neighbours: 1 + 1/256 of bfloat16, 1 + 1/2048 of float16, half a smallest number of float16.
  const Floats ties = {1.00390625f, 1.01171875f, 1.00048828125f, 1.00146484375f, 0x1p-25f, 0x1.8p-24f};
  const Floats bf16 = there_and_back(WireFormat::kBfloat16, ties, 2),
               fp16 = there_and_back(WireFormat::kFloat16, ties, 2);
  CHECK(bf16[0] == 1.0f && bf16[1] == 1.015625f);
  CHECK(fp16[2] == 1.0f && fp16[3] == 1.001953125f && fp16[4] == 0.0f && fp16[5] == 0x1p-23f);
  // The scale is 1: 127 is the largest.
  const Floats int8 = there_and_back(WireFormat::kInt8, {127.0f, 0.5f, 1.5f, -2.5f, -0.5f, 126.5f}, 6);
  CHECK((int8 == Floats{127.0f, 0.0f, 2.0f, -2.0f, 0.0f, 126.0f}));
}

TEST(finite_stays_finite_and_the_rest_stays_what_it_is) {
  const Floats row = {kMost, -kMost, kInf, -kInf, kNan, 1.0f};
  const Floats bf16 = there_and_back(WireFormat::kBfloat16, row, 6),
               fp16 = there_and_back(WireFormat::kFloat16, row, 6);
  CHECK(bf16[0] == float_of(0x7f7f0000u) && bf16[1] == -bf16[0] && fp16[0] == 65504.0f && fp16[1] == -65504.0f);
  for (const Floats& found : {bf16, fp16}) {
    CHECK(found[2] == kInf && found[3] == -kInf && std::isnan(found[4]) && found[5] == 1.0f);
  }
  for (const float odd : {kInf, kNan}) {
    for (const float value : there_and_back(WireFormat::kInt8, {1.0f, odd, 2.0f}, 3)) CHECK(std::isnan(value));
  }
  const Floats largest = there_and_back(WireFormat::kInt8, {kMost, -kMost, 0.0f}, 3);
  CHECK(std::isfinite(largest[0]) && largest[0] >= 0.99f * kMost && largest[1] == -largest[0] && largest[2] == 0.0f);
}

TEST(a_row_of_int8_is_within_half_a_step) {
  const Floats values = of_all_sizes(64 * 1000);
  for (std::size_t width : {1u, 8u, 10u, 64u}) {
    const Bytes data = encoded(WireFormat::kInt8, values, width);
    const Floats found = decoded(WireFormat::kInt8, data, width);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::uint8_t* const row = data.data() + i / width * (width + 2);
      std::uint16_t stored;
      std::memcpy(&stored, row, 2);
      const double scale = Bfloat16::load(stored);
      CHECK(std::fabs(static_cast<double>(found[i]) - static_cast<double>(values[i])) <= 0.5001 * scale);
      float most = 0;
      for (std::size_t j = i / width * width; j < (i / width + 1) * width; ++j)
        most = std::fmax(most, std::fabs(values[j]));
      CHECK(scale <= static_cast<double>(most) / 127 * 1.008 + 0x1p-133);
    }
  }
}

// Journals have these bytes: whoever changes them cannot read what was written.
TEST(bytes_of_formats_are_for_ever) {
  const Floats row = {1.0f, -0.3f, 0.0071f};
  CHECK((encoded(WireFormat::kBfloat16, row, 3) == Bytes{0x80, 0x3f, 0x9a, 0xbe, 0xe9, 0x3b}));
  CHECK((encoded(WireFormat::kFloat16, row, 3) == Bytes{0x00, 0x3c, 0xcd, 0xb4, 0x45, 0x1f}));
  CHECK((encoded(WireFormat::kInt8, row, 3) == Bytes{0x02, 0x3c, 126, 0xda, 1}));
  const std::int64_t key = 12345;
  Bytes fp16(6), int8(5);
  fleet::encode_rows_by_chance(WireFormat::kFloat16, row.data(), 1, 3, &key, 1, 3, fp16.data());
  fleet::encode_rows_by_chance(WireFormat::kInt8, row.data(), 1, 3, &key, 1, 6, int8.data());
  CHECK((fp16 == Bytes{0x00, 0x3c, 0xcd, 0xb4, 0x46, 0x1f}));
  CHECK((int8 == Bytes{0x02, 0x3c, 126, 0xda, 0}));
}

TEST(by_chance_the_mean_is_the_value) {
  const Floats row = {1.0f, 0.0031f, -0.0007f, 3e-9f, -1e-8f};
  for (const WireFormat format : {WireFormat::kFloat16, WireFormat::kInt8}) {
    const std::size_t width = row.size(), bytes = fleet::row_bytes(format, width);
    std::vector<double> sums(width);
    constexpr std::uint32_t kTimes = 100000;
    Bytes data(bytes);
    const std::int64_t key = -7;
    for (std::uint32_t step = 0; step < kTimes; ++step) {
      fleet::encode_rows_by_chance(format, row.data(), 1, width, &key, 3, step, data.data());
      const Floats found = decoded(format, data, width);
      for (std::size_t i = 0; i < width; ++i) sums[i] += static_cast<double>(found[i]);
    }
    for (std::size_t i = 0; i < 3; ++i) {
      const double step = format == WireFormat::kInt8 ? 1.0 / 126 : 0x1p-10;
      CHECK(std::fabs(sums[i] / kTimes - static_cast<double>(row[i])) < step * 6 / std::sqrt(kTimes));
    }
    // To the nearest these two would be zero for ever.
    if (format == WireFormat::kFloat16) CHECK(std::fabs(sums[3] / kTimes - 3e-9) < 0x1p-24 * 6 / std::sqrt(kTimes));
    if (format == WireFormat::kFloat16) CHECK(sums[3] > 0 && sums[4] < 0);
  }
}

TEST(a_vector_is_blocks_and_a_rest) {
  for (const WireFormat format : kAll) {
    for (const std::size_t n : {0u, 1u, 63u, 64u, 65u, 200u}) {
      const Floats values = of_all_sizes(n);
      Bytes data(fleet::vector_bytes(format, n));
      Floats found(n);
      fleet::encode_vector(format, values.data(), nullptr, n, data.data());
      fleet::decode_vector(format, data.data(), n, found.data());
      for (std::size_t begin = 0; begin < n; begin += fleet::kBlockWidth) {
        const std::size_t width = std::min(fleet::kBlockWidth, n - begin);
        const Floats block(values.begin() + static_cast<std::ptrdiff_t>(begin),
                           values.begin() + static_cast<std::ptrdiff_t>(begin + width));
        const Floats wanted = there_and_back(format, block, width);
        for (std::size_t i = 0; i < width; ++i) CHECK(same(found[begin + i], wanted[i]));
      }
    }
  }
}

TEST(what_is_not_sent_stays_in_the_residual) {
  constexpr std::size_t kSize = 130;
  for (const WireFormat format : {WireFormat::kBfloat16, WireFormat::kFloat16, WireFormat::kInt8}) {
    Floats values(kSize, 1e-9f), residual(kSize), found(kSize);
    values[0] = values[64] = values[128] = 1.0f;  // beside which the others are nothing
    std::vector<double> sums(kSize);
    Bytes data(fleet::vector_bytes(format, kSize));
    for (int step = 0; step < 1000; ++step) {
      fleet::encode_vector(format, values.data(), residual.data(), kSize, data.data());
      fleet::decode_vector(format, data.data(), kSize, found.data());
      for (std::size_t i = 0; i < kSize; ++i) sums[i] += static_cast<double>(found[i]);
    }
    for (std::size_t i = 0; i < kSize; ++i) {
      const double wanted = 1000 * static_cast<double>(values[i]);
      CHECK(std::fabs(sums[i] + static_cast<double>(residual[i]) - wanted) <= 1e-4 * wanted);
    }
    values.assign(kSize, kNan);
    const Floats before = residual;
    fleet::encode_vector(format, values.data(), residual.data(), kSize, data.data());
    CHECK(residual == before);
  }
}
