// Many texts at once; what the hash of one is stands in hash_text.h.
#include "data/hash_text.h"

namespace fleet::data {

namespace {

template <class Offset>
bool hash_all(std::uint64_t seed, const char* text, std::size_t size, const Offset* offsets, std::size_t n,
              std::int64_t* ids) {
  for (std::size_t i = 0; i < n; ++i) {
    const Offset first = offsets[i], last = offsets[i + 1];
    if (first < 0 || last < first || static_cast<std::uint64_t>(last) > size) return false;
    ids[i] = hash_text(seed, text + first, static_cast<std::size_t>(last - first));
  }
  return true;
}

// Numbers as text, from the end of a buffer to the front, which leaves room to read in front of them.
template <class Integer>
void hash_decimals(std::uint64_t seed, const Integer* numbers, std::size_t n, std::int64_t* ids) {
  char buffer[8 + 20] = {};
  char* const end = buffer + sizeof(buffer);
  for (std::size_t i = 0; i < n; ++i) {
    const bool is_negative = numbers[i] < 0;
    std::uint64_t left =
        is_negative ? 0 - static_cast<std::uint64_t>(numbers[i]) : static_cast<std::uint64_t>(numbers[i]);
    char* p = end;
    do {
      *--p = static_cast<char>('0' + left % 10);
      left /= 10;
    } while (left != 0);
    if (is_negative) *--p = '-';
    ids[i] = hash_text_with_room(seed, p, static_cast<std::size_t>(end - p));
  }
}

}  // namespace

std::uint64_t slot_seed(const char* name, std::size_t size) {
  return text_hash::hash64<false>(text_hash::kE, name, size);
}

bool hash_texts(std::uint64_t seed, const char* text, std::size_t size, const std::int32_t* offsets, std::size_t n,
                std::int64_t* ids) {
  return hash_all(seed, text, size, offsets, n, ids);
}
bool hash_texts(std::uint64_t seed, const char* text, std::size_t size, const std::int64_t* offsets, std::size_t n,
                std::int64_t* ids) {
  return hash_all(seed, text, size, offsets, n, ids);
}

void hash_numbers(std::uint64_t seed, const std::int64_t* numbers, std::size_t n, std::int64_t* ids) {
  hash_decimals(seed, numbers, n, ids);
}
void hash_numbers(std::uint64_t seed, const std::uint64_t* numbers, std::size_t n, std::int64_t* ids) {
  hash_decimals(seed, numbers, n, ids);
}

}  // namespace fleet::data
