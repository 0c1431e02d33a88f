// The id of a category: 63 bits of (slot, text), never negative.
//
// A contract on disk: tables that were trained on these ids are read by later versions and on other machines, so the
// definition may never change. The tests pin values. It is one on bytes, whatever the machine's order of them:
//
//   fold(a, b)      the low 64 bits of a * b, xor its high 64 bits
//   hash64(h, text) text is filled up with zero bytes to blocks of 16; an empty one has none. For each block, as the
//                   words x, y of 8 bytes, the lowest first:  h = fold(x ^ h ^ kA, y ^ rotate(h, 32) ^ kB)
//                   At the end, if the text has n bytes:      h = fold(h ^ kC, n + kD)
//   seed(slot)    = hash64(kE, the slot's name in UTF-8)
//   id            = hash64(seed, text) >> 1
//
// kA to kE are the first 64 bits behind the point of the square roots of 2, 3, 5, 7 and 11. An integer has the id of
// its decimal text. The hash spreads what people write; it does not withstand those who choose texts that collide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace fleet::data {

namespace text_hash {

constexpr std::uint64_t kA = 0x6a09e667f3bcc908u, kB = 0xbb67ae8584caa73bu, kC = 0x3c6ef372fe94f82bu,
                        kD = 0xa54ff53a5f1d36f1u, kE = 0x510e527fade682d1u;

inline std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// 8 bytes, the first of them lowest.
inline std::uint64_t load8(const char* p) {
  std::uint64_t word;
  std::memcpy(&word, p, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

// The n < 8 bytes at p, the first of them lowest, and zeros.
inline std::uint64_t load_some(const char* p, std::size_t n) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < n; ++i) word |= static_cast<std::uint64_t>(static_cast<unsigned char>(p[i])) << (8 * i);
  return word;
}

inline std::uint64_t block(std::uint64_t h, std::uint64_t x, std::uint64_t y) {
  return fold(x ^ h ^ kA, y ^ (h << 32 | h >> 32) ^ kB);
}

inline std::uint64_t finish(std::uint64_t h, std::size_t n) { return fold(h ^ kC, n + kD); }

// `kHasRoom`: 8 bytes in front of p may be read, which makes short texts quick whatever their length.
template <bool kHasRoom>
inline std::uint64_t hash64(std::uint64_t h, const char* p, std::size_t n) {
  std::size_t left = n;
  for (; left > 16; left -= 16, p += 16) h = block(h, load8(p), load8(p + 8));
  if (left > 8) return finish(block(h, load8(p), load8(p + left - 8) >> (8 * (16 - left))), n);
  if (left == 0) return finish(h, n);
  const std::uint64_t x = kHasRoom || left == 8 ? load8(p + left - 8) >> (8 * (8 - left)) : load_some(p, left);
  return finish(block(h, x, 0), n);
}

}  // namespace text_hash

// What goes into the hash of a slot's texts.
std::uint64_t slot_seed(const char* name, std::size_t size);

inline std::int64_t hash_text(std::uint64_t seed, const char* text, std::size_t size) {
  return static_cast<std::int64_t>(text_hash::hash64<false>(seed, text, size) >> 1);
}

// The same where 8 bytes in front of the text may be read.
inline std::int64_t hash_text_with_room(std::uint64_t seed, const char* text, std::size_t size) {
  return static_cast<std::int64_t>(text_hash::hash64<true>(seed, text, size) >> 1);
}

// ids[i] is that of text[offsets[i] .. offsets[i + 1]]. False: the offsets do not ascend within `size` bytes.
bool hash_texts(std::uint64_t seed, const char* text, std::size_t size, const std::int32_t* offsets, std::size_t n,
                std::int64_t* ids);
bool hash_texts(std::uint64_t seed, const char* text, std::size_t size, const std::int64_t* offsets, std::size_t n,
                std::int64_t* ids);

// ids[i] is that of the decimal text of numbers[i].
void hash_numbers(std::uint64_t seed, const std::int64_t* numbers, std::size_t n, std::int64_t* ids);
void hash_numbers(std::uint64_t seed, const std::uint64_t* numbers, std::size_t n, std::int64_t* ids);

}  // namespace fleet::data
