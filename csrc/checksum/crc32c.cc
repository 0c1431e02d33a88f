#include "checksum/crc32c.h"

#include <array>
#include <cstring>

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#if defined(__x86_64__) || defined(__aarch64__)
#define FLEET_HAS_CRC_INSTRUCTION 1
#endif

namespace fleet {

namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78u;  // reversed: the lowest bit is the highest power

using Table = std::array<std::uint32_t, 256>;

// tables[k][b]: what byte b comes to with k zero bytes behind it.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? kPolynomial : 0u);
    tables[0][b] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 0xffu];
    }
  }
  return tables;
}

constexpr std::array<Table, 8> kTables = make_tables();

constexpr std::uint32_t add_byte(std::uint32_t crc, unsigned char byte) {
  return (crc >> 8) ^ kTables[0][(crc ^ byte) & 0xffu];
}

// Little-endian, as the polynomial is reversed.
std::uint64_t eight_bytes(const unsigned char* data) {
  std::uint64_t word;
  std::memcpy(&word, data, sizeof word);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

#ifdef FLEET_HAS_CRC_INSTRUCTION

#if defined(__x86_64__)
#define FLEET_CRC __attribute__((target("sse4.2")))
FLEET_CRC inline std::uint64_t add_eight(std::uint64_t crc, std::uint64_t word) {
  return __builtin_ia32_crc32di(crc, word);
}
bool has_instruction() { return __builtin_cpu_supports("sse4.2") != 0; }
#else
#define FLEET_CRC
inline std::uint64_t add_eight(std::uint64_t crc, std::uint64_t word) {
  asm(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
  return crc;
}
#if defined(__linux__)
bool has_instruction() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
#else
bool has_instruction() { return true; }  // every Apple processor of this kind
#endif
#endif

// An instruction takes three cycles, and one may begin in each: three streams side by side, put together at the end.
constexpr std::size_t kStream = 1024;

// shift[i][b]: what byte i of a checksum comes to when kStream zero bytes follow.
constexpr std::array<Table, 4> make_shift() {
  std::uint32_t bits[32] = {};
  for (std::uint32_t i = 0; i < 32; ++i) {
    std::uint32_t crc = 1u << i;
    for (std::size_t n = 0; n < kStream; ++n) crc = add_byte(crc, 0);
    bits[i] = crc;
  }
  std::array<Table, 4> shift{};
  for (std::size_t byte = 0; byte < 4; ++byte) {
    for (std::size_t b = 0; b < 256; ++b) {
      for (std::size_t i = 0; i < 8; ++i) shift[byte][b] ^= ((b >> i) & 1u) != 0 ? bits[byte * 8 + i] : 0u;
    }
  }
  return shift;
}

constexpr std::array<Table, 4> kShift = make_shift();

std::uint64_t shifted(std::uint64_t crc) {
  return kShift[0][crc & 0xffu] ^ kShift[1][(crc >> 8) & 0xffu] ^ kShift[2][(crc >> 16) & 0xffu] ^
         kShift[3][(crc >> 24) & 0xffu];
}

FLEET_CRC std::uint32_t by_instruction(const void* data, std::size_t n, std::uint32_t start) {
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint64_t crc = ~start;
  for (; n >= 3 * kStream; at += 3 * kStream, n -= 3 * kStream) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < kStream; i += 8) {
      crc = add_eight(crc, eight_bytes(at + i));
      second = add_eight(second, eight_bytes(at + kStream + i));
      third = add_eight(third, eight_bytes(at + 2 * kStream + i));
    }
    crc = shifted(shifted(crc) ^ second) ^ third;
  }
  for (; n >= 8; at += 8, n -= 8) crc = add_eight(crc, eight_bytes(at));
  auto rest = static_cast<std::uint32_t>(crc);
  for (; n > 0; ++at, --n) rest = add_byte(rest, *at);
  return ~rest;
}

#endif

}  // namespace

std::uint32_t crc32c_by_table(const void* data, std::size_t n, std::uint32_t start) {
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint32_t crc = ~start;
  for (; n >= 8; at += 8, n -= 8) {
    const std::uint64_t word = eight_bytes(at) ^ crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xffu];
  }
  for (; n > 0; ++at, --n) crc = add_byte(crc, *at);
  return ~crc;
}

std::uint32_t crc32c(const void* data, std::size_t n, std::uint32_t start) {
#ifdef FLEET_HAS_CRC_INSTRUCTION
  static const bool is_there = has_instruction();
  if (is_there) return by_instruction(data, n, start);
#endif
  return crc32c_by_table(data, n, start);
}

}  // namespace fleet
