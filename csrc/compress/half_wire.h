// The 16-bit formats of the wire. They round as table/half.h does, but what is finite stays finite, and without a
// branch, so that a compiler makes vector instructions of a loop over them.
#pragma once

#include <cstdint>

#include "table/half.h"

namespace fleet {

struct WireBfloat16 {
  static std::uint16_t store(float value) {
    const std::uint32_t bits = bits_of(value);
    const auto size = static_cast<std::int32_t>(bits & 0x7fffffffu);
    const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    const std::uint32_t largest = (bits & 0x80000000u) | 0x7f7f0000u;
    const std::uint32_t finite = size > 0x7f7f0000 ? largest : rounded;
    const std::uint32_t other = size > 0x7f800000 ? bits | 0x400000u : bits;
    return static_cast<std::uint16_t>((size >= 0x7f800000 ? other : finite) >> 16);
  }
  static float load(std::uint16_t stored) { return Bfloat16::load(stored); }
};

struct WireFloat16 {
  static std::uint16_t store(float value) {
    const std::uint32_t bits = bits_of(value);
    const auto size = static_cast<std::int32_t>(bits & 0x7fffffffu);
    // Below the smallest normal number: adding 0.5 makes the hardware round to a multiple of 2^-24.
    const float small = float_of(size < kNormal ? bits & 0x7fffffffu : 0u) + 0.5f;
    const auto subnormal = static_cast<std::int32_t>(bits_of(small) - 0x3f000000u);
    const std::int32_t normal = (size - 0x38000000 + 0xfff + ((size >> 13) & 1)) >> 13;
    const std::int32_t finite = size < kNormal ? subnormal : size > kLargest ? 0x7bff : normal;
    const std::int32_t other = size > 0x7f800000 ? 0x7e00 : 0x7c00;
    const std::int32_t rounded = size >= 0x7f800000 ? other : finite;
    return static_cast<std::uint16_t>(((bits >> 16) & 0x8000u) | static_cast<std::uint32_t>(rounded));
  }
  // By chance; see table/half.h.
  static std::uint16_t store(float value, std::uint16_t draw) {
    const std::uint32_t bits = bits_of(value);
    const auto size = static_cast<std::int32_t>(bits & 0x7fffffffu);
    const std::uint32_t clipped =
        size > kLargest && size < 0x7f800000 ? static_cast<std::uint32_t>(kLargest) : static_cast<std::uint32_t>(size);
    return Float16::store(float_of((bits & 0x80000000u) | clipped), draw);
  }
  static float load(std::uint16_t stored) {
    const std::uint32_t sign = static_cast<std::uint32_t>(stored & 0x8000u) << 16;
    const auto size = static_cast<std::int32_t>(stored & 0x7fffu);
    const float small = static_cast<float>(size) * 0x1p-24f;  // right below the smallest normal number
    const std::int32_t normal = (size << 13) + (size >= 0x7c00 ? 0x70000000 : 0x38000000);
    return float_of(sign | (size < 0x400 ? bits_of(small) : static_cast<std::uint32_t>(normal)));
  }

 private:
  static constexpr std::int32_t kNormal = 0x38800000;   // the smallest one, as a float's bits
  static constexpr std::int32_t kLargest = 0x477fe000;  // 65504
};

}  // namespace fleet
