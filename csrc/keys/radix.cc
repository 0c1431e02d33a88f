#include "keys/radix.h"

#include <algorithm>
#include <array>
#include <utility>

namespace fleet {
namespace {

// 256 write streams stay in the first-level cache; wider digits save a pass and lose more than that.
constexpr int kDigitBits = 8;

// Below this many pairs a comparison sort wins over clearing counters.
constexpr std::size_t kSmallSort = 256;

// One stable counting pass over the digit at `shift`.
void pass(const Tagged* from, Tagged* to, std::size_t n, int shift) {
  constexpr std::uint64_t kMask = (1u << kDigitBits) - 1;
  std::array<std::uint32_t, kMask + 1> start{};
  for (std::size_t i = 0; i < n; ++i) ++start[(from[i].key >> shift) & kMask];
  std::uint32_t sum = 0;
  for (auto& s : start) sum += std::exchange(s, sum);
  for (std::size_t i = 0; i < n; ++i) to[start[(from[i].key >> shift) & kMask]++] = from[i];
}

// Sorts by bits [low, high), least significant digit first; leaves the result in `a`.
void sort_bits(Tagged*& a, Tagged*& b, std::size_t n, int low, int high) {
  for (int shift = low; shift < high; shift += kDigitBits) {
    pass(a, b, n, shift);
    std::swap(a, b);
  }
}

// Insertion sort that gives up after 2n moves; true when `a` is sorted.
bool finish(Tagged* a, std::size_t n) {
  std::size_t moves_left = 2 * n;
  for (std::size_t i = 1; i < n; ++i) {
    if (a[i - 1].key <= a[i].key) continue;
    const Tagged x = a[i];
    std::size_t j = i;
    for (; j > 0 && a[j - 1].key > x.key && moves_left > 0; --j, --moves_left) a[j] = a[j - 1];
    a[j] = x;
    if (moves_left == 0) return false;
  }
  return true;
}

}  // namespace

Tagged* radix_sort(Tagged* a, Tagged* b, std::size_t n, std::uint64_t max_key) {
  if (n < kSmallSort) {
    std::sort(a, a + n, [](const Tagged& x, const Tagged& y) { return x.key < y.key; });
    return a;
  }
  // Hashed ids spread over 64 bits: enough of the high ones to tell most of n keys apart nearly sort them, in three
  // passes instead of eight. Keys that crowd together take the long way.
  const int bits = bit_width(max_key);
  const int head = (bit_width(n) + kDigitBits - 1) / kDigitBits * kDigitBits;
  if (bits > head) {
    sort_bits(a, b, n, bits - head, bits);
    if (finish(a, n)) return a;
  }
  sort_bits(a, b, n, 0, bits);
  return a;
}

}  // namespace fleet
