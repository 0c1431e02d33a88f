// Floats of a message, in every format: read in place, or decoded when they are wanted.
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "check.h"
#include "plane/gradients.h"

namespace {

using fleet::WireFormat;
using fleet::plane::Extent;
using fleet::plane::Floats;

constexpr WireFormat kAll[] = {WireFormat::kFloat32, WireFormat::kBfloat16, WireFormat::kFloat16, WireFormat::kInt8};

template <class T>
Extent extent(const std::vector<T>& items, std::size_t more = 0) {
  return {reinterpret_cast<const std::byte*>(items.data()), items.size() * sizeof(T) - more};
}

std::vector<float> some(std::size_t n) {
  std::vector<float> made;
  for (std::size_t i = 0; i < n; ++i) made.push_back(static_cast<float>(i) / 8.0f - 4.0f);
  return made;
}

}  // namespace

TEST(plane_floats_rows_and_vectors) {
  constexpr std::size_t kRows = 13, kWidth = 10, kSize = kRows * kWidth;
  const std::vector<float> values = some(kSize);
  for (const WireFormat format : kAll) {
    std::vector<std::uint8_t> rows(kRows * fleet::row_bytes(format, kWidth)), all(fleet::vector_bytes(format, kSize));
    fleet::encode_rows(format, values.data(), kRows, kWidth, rows.data());
    fleet::encode_vector(format, values.data(), nullptr, kSize, all.data());
    std::vector<float> wanted(kSize);
    Floats found;
    CHECK(found.take_rows(extent(rows), format, kRows, kWidth));
    CHECK(found.decoded_bytes() == (format == WireFormat::kFloat32 ? 0 : 4 * kSize));
    fleet::decode_rows(format, rows.data(), kRows, kWidth, wanted.data());
    CHECK(std::memcmp(found.values(), wanted.data(), 4 * kSize) == 0 && found.decoded_bytes() == 0);
    CHECK(found.largest() == std::fabs(wanted.back()));
    Floats other;
    CHECK(other.take_vector(extent(all), format, kSize));
    fleet::decode_vector(format, all.data(), kSize, wanted.data());
    CHECK(std::memcmp(other.values(), wanted.data(), 4 * kSize) == 0);
    Floats wrong;
    CHECK(!wrong.take_rows(extent(rows, 1), format, kRows, kWidth));
    CHECK(!wrong.take_rows(extent(rows), format, kRows + 1, kWidth));
    CHECK(!wrong.take_vector(extent(all, 1), format, kSize));
    Floats nothing;
    CHECK(nothing.take_rows({rows.data() == nullptr ? nullptr : extent(rows).data, 0}, format, 0, kWidth));
    CHECK(nothing.values() != nullptr && nothing.largest() == 0);
  }
}

TEST(plane_floats_of_some_places) {
  const std::vector<float> values = {1.0f, -2.0f, 4.0f};
  for (const WireFormat format : kAll) {
    std::vector<std::uint8_t> data(fleet::vector_bytes(format, 3));
    fleet::encode_vector(format, values.data(), nullptr, 3, data.data());
    std::vector<std::int32_t> places = {0, 5, 6};
    Floats found;
    CHECK(found.take_some(extent(places), extent(data), format, 7));
    Floats late = Floats();
    CHECK(late.take_some(extent(places), extent(data), format, 7));
    std::vector<float> sent(3);
    fleet::decode_vector(format, data.data(), 3, sent.data());
    const float* all = found.values();
    CHECK(all[0] == sent[0] && all[1] == 0 && all[4] == 0 && all[5] == sent[1] && all[6] == sent[2]);
    Floats wrong;
    CHECK(!wrong.take_some(extent(places), extent(data), format, 6));     // a place beyond
    CHECK(!wrong.take_some(extent(places, 4), extent(data), format, 7));  // fewer places than values
    CHECK(!wrong.take_some(extent(places, 1), extent(data), format, 7));  // and a part of one
    for (const std::vector<std::int32_t>& bad : {std::vector<std::int32_t>{0, 6, 5}, {-1, 5, 6}, {5, 5, 6}}) {
      CHECK(!wrong.take_some(extent(bad), extent(data), format, 7));
    }
    places[2] = 1 << 30;  // by somebody who can write there
    bool refused = false;
    try {
      late.values();
    } catch (const std::runtime_error&) {
      refused = true;
    }
    CHECK(refused);
  }
}
