#include "table/finite.h"

#include <cstdint>
#include <cstring>

namespace fleet {

// On the bits, so that the compiler may check several at once.
bool all_finite(const float* values, std::size_t n) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, values + i, sizeof bits);
    found |= static_cast<std::uint32_t>((bits & 0x7f800000u) == 0x7f800000u);
  }
  return found == 0;
}

}  // namespace fleet
