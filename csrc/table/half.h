// float16 and bfloat16 as they are stored: conversion to float and back.
//
// store(value) rounds to the nearest, ties to even. store(value, draw) takes the number below or above (in size), above
// if the draw, one of 65,536 equally likely ones, is large enough: the mean over all draws is the value. A number that
// can be stored stays what it is, and what lies beyond the largest is rounded to the nearest.
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
  static std::uint16_t store(float value, std::uint16_t draw) {
    const std::uint32_t bits = bits_of(value);
    const auto size = static_cast<std::int32_t>(bits & 0x7fffffffu);
    const std::uint32_t to_nearest = 0x7fffu + ((bits >> 16) & 1u);
    const std::uint32_t rounded = bits + (size > kLargest ? to_nearest : draw);
    return static_cast<std::uint16_t>((size > 0x7f800000 ? bits | 0x400000u : rounded) >> 16);
  }

 private:
  static constexpr std::int32_t kLargest = 0x7f7f0000;  // as a float's bits
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
  static std::uint16_t store(float value, std::uint16_t draw) {
    const std::uint32_t bits = bits_of(value);
    const auto size = static_cast<std::int32_t>(bits & 0x7fffffffu);
    const std::int32_t normal = (size - 0x38000000 + (draw >> 3)) >> 13;
    // As multiples of 2^-40, of which 65,536 make a step.
    const float small = float_of(size < kNormal ? bits & 0x7fffffffu : 0) * 0x1p40f;
    const std::int32_t subnormal = (static_cast<std::int32_t>(small) + draw) >> 16;
    const std::int32_t beyond = size > 0x7f800000 ? 0x7e00 : size >= 0x477ff000 ? 0x7c00 : 0x7bff;
    const std::int32_t rounded = size < kNormal ? subnormal : size > kLargest ? beyond : normal;
    return static_cast<std::uint16_t>(((bits >> 16) & 0x8000u) | static_cast<std::uint32_t>(rounded));
  }

 private:
  static constexpr std::int32_t kNormal = 0x38800000;   // the smallest one, as a float's bits
  static constexpr std::int32_t kLargest = 0x477fe000;  // 65504
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
