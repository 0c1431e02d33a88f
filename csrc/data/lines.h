// Where the fields of a text's lines end, found 64 bytes at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "data/hash_text.h"

namespace fleet::data {

// Bit i: byte i of the 64 at p is one of a, b, c. In plain arithmetic, for machines without the instructions below.
inline std::uint64_t find_plainly(const char* p, char a, char b, char c) {
  constexpr std::uint64_t kOnes = 0x0101010101010101u, kLow = 0x7f * kOnes;
  const auto zeros = [](std::uint64_t word) { return ~(((word & kLow) + kLow) | word | kLow); };
  const auto all = [](char x) { return kOnes * static_cast<unsigned char>(x); };
  std::uint64_t found = 0;
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t word = text_hash::load8(p + 8 * i);
    const std::uint64_t hits = zeros(word ^ all(a)) | zeros(word ^ all(b)) | zeros(word ^ all(c));
    found |= (hits >> 7) * 0x0102040810204080u >> 56 << (8 * i);
  }
  return found;
}

inline std::uint64_t find(const char* p, char a, char b, char c) {
#if defined(__SSE2__)
  const __m128i as = _mm_set1_epi8(a), bs = _mm_set1_epi8(b), cs = _mm_set1_epi8(c);
  std::uint64_t found = 0;
  for (int i = 0; i < 4; ++i) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16 * i));
    const __m128i hits =
        _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, as), _mm_cmpeq_epi8(bytes, bs)), _mm_cmpeq_epi8(bytes, cs));
    found |= static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm_movemask_epi8(hits))) << (16 * i);
  }
  return found;
#else
  return find_plainly(p, a, b, c);
#endif
}

std::size_t count_lines(const char* text, std::size_t size);  // the last one needs no newline

struct Line {
  const char* first;
  const char* last;         // without the newline and a carriage return in front of it
  std::size_t num_columns;  // that are not in quotes: of a line with quotes it means nothing
  bool has_quote;
};

// Walks through the lines of a text. `quote` is a newline where none is wanted.
class LineScanner {
 public:
  LineScanner(const char* text, std::size_t size, char delimiter, char quote)
      : next_(text), end_(text + size), chunk_(text), delimiter_(delimiter), quote_(quote) {
    look();
  }

  // The next line, and the ends of its first `most` fields; false at the end of the text.
  bool next(Line& line, const char** ends, std::size_t most) {
    if (next_ == end_) return false;
    line.first = next_;
    line.has_quote = false;
    std::size_t count = 0;
    const char* at = nullptr;
    for (;;) {
      while (found_ == 0) {
        if (end_ - chunk_ <= 64) {
          at = end_;
          break;
        }
        chunk_ += 64;
        look();
      }
      if (at != nullptr) break;
      const char* const hit = chunk_ + __builtin_ctzll(found_);
      found_ &= found_ - 1;
      if (*hit == delimiter_) {
        if (count < most) ends[count] = hit;
        ++count;
      } else if (*hit == '\n') {
        at = hit;
        break;
      } else {
        line.has_quote = true;
      }
    }
    next_ = at == end_ ? end_ : at + 1;
    if (at != line.first && at[-1] == '\r') --at;
    if (count < most) ends[count] = at;
    line.last = at;
    line.num_columns = count + 1;
    return true;
  }

 private:
  void look() {
    if (end_ - chunk_ >= 64) {
      found_ = find(chunk_, delimiter_, '\n', quote_);
      return;
    }
    const auto rest = static_cast<std::size_t>(end_ - chunk_);
    char padded[64] = {};
    if (rest != 0) std::memcpy(padded, chunk_, rest);
    found_ = find(padded, delimiter_, '\n', quote_) & ((std::uint64_t{1} << rest) - 1);
  }

  const char* next_;
  const char* const end_;
  const char* chunk_;
  std::uint64_t found_ = 0;
  const char delimiter_, quote_;
};

}  // namespace fleet::data
