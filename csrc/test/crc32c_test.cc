#include "checksum/crc32c.h"

#include <algorithm>
#include <random>
#include <vector>

#include "check.h"

namespace {

using Bytes = std::vector<unsigned char>;

void check(const Bytes& data, std::uint32_t expected) {
  CHECK(fleet::crc32c(data.data(), data.size()) == expected);
  CHECK(fleet::crc32c_by_table(data.data(), data.size()) == expected);
}

// Bit by bit, as the definition has it.
std::uint32_t plain(const unsigned char* data, std::size_t n, std::uint32_t start) {
  std::uint32_t crc = ~start;
  for (std::size_t i = 0; i < n; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

}  // namespace

TEST(crc32c_known_values) {
  check({}, 0);
  const char* digits = "123456789";
  check(Bytes(digits, digits + 9), 0xe3069283u);
  // RFC 3720, B.4
  check(Bytes(32, 0), 0x8a9136aau);
  check(Bytes(32, 0xff), 0x62a8ab43u);
  Bytes up(32), down(32);
  for (unsigned char i = 0; i < 32; ++i) {
    up[i] = i;
    down[i] = static_cast<unsigned char>(31 - i);
  }
  check(up, 0x46dd794eu);
  check(down, 0x113fdb5cu);
}

TEST(crc32c_of_any_length_place_and_start) {
  std::mt19937_64 random(3);
  Bytes data(40000);
  for (auto& byte : data) byte = static_cast<unsigned char>(random());
  std::vector<std::size_t> lengths;
  for (std::size_t n = 0; n < 70; ++n) lengths.push_back(n);
  for (const std::size_t n : {1023, 1024, 1025, 3071, 3072, 3073, 3080, 6143, 6144, 6151, 9216, 39000}) {
    lengths.push_back(n);
  }
  for (const std::size_t n : lengths) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{7}}) {
      const auto start = static_cast<std::uint32_t>(random());
      const std::uint32_t expected = plain(data.data() + at, n, start);
      CHECK(fleet::crc32c(data.data() + at, n, start) == expected);
      CHECK(fleet::crc32c_by_table(data.data() + at, n, start) == expected);
    }
  }
}

TEST(crc32c_in_pieces) {
  std::mt19937_64 random(4);
  Bytes data(20000);
  for (auto& byte : data) byte = static_cast<unsigned char>(random());
  const std::uint32_t whole = fleet::crc32c(data.data(), data.size());
  for (int trial = 0; trial < 50; ++trial) {
    std::uint32_t crc = 0;
    for (std::size_t at = 0; at < data.size();) {
      const std::size_t n = std::min<std::size_t>(random() % 7000, data.size() - at);
      crc = fleet::crc32c(data.data() + at, n, crc);
      at += n;
    }
    CHECK(crc == whole);
  }
}
