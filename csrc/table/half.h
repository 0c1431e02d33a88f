// float16 and bfloat16 as they are stored: conversion to float and back, rounded to the nearest, ties to even.
#pragma once

#include <cstdint>
#include <cstring>

namespace fleet {

inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

struct Bfloat16 {
  static float load(std::uint16_t stored) { return float_of(static_cast<std::uint32_t>(stored) << 16); }
  static std::uint16_t store(float value) {
    const std::uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);  // stays a NaN
    return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
};

struct Float16 {
  static float load(std::uint16_t stored) {
    const std::uint32_t sign = static_cast<std::uint32_t>(stored & 0x8000u) << 16;
    const std::uint32_t exponent = (stored >> 10) & 0x1fu;
    const std::uint32_t fraction = stored & 0x3ffu;
    if (exponent == 0x1fu) return float_of(sign | 0x7f800000u | (fraction << 13));
    if (exponent == 0) {  // a multiple of 2^-24, exact in float
      const float size = static_cast<float>(fraction) * 5.9604644775390625e-08f;
      return float_of(sign | bits_of(size));
    }
    return float_of(sign | ((exponent + 112u) << 23) | (fraction << 13));
  }
  static std::uint16_t store(float value) {
    const std::uint32_t bits = bits_of(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
    const std::uint32_t size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
    if (size >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to infinity
    if (size < 0x38800000u) {
      // Below the smallest normal number: adding 0.5 makes the hardware round to a multiple of 2^-24.
      const std::uint32_t rounded = bits_of(float_of(size) + 0.5f);
      return static_cast<std::uint16_t>(sign | (rounded - 0x3f000000u));
    }
    const std::uint32_t rounded = size + 0xfffu + ((size >> 13) & 1u);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
};

// The stored number next to `bound` that is not above it (down) or not below it.
template <class Half>
float within(float bound, bool down) {
  const std::uint16_t stored = Half::store(bound);
  const float value = Half::load(stored);
  if (!(down ? value > bound : value < bound)) return value;
  if (value == 0) return Half::load(down ? 0x8001 : 0x0001);
  return Half::load(static_cast<std::uint16_t>((value > 0) == down ? stored - 1 : stored + 1));
}

}  // namespace fleet
