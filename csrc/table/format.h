// How a row lies in memory: the values in the type they are stored in, then the rule's state in float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "rule/rule.h"
#include "table/half.h"
#include "table/rounding.h"

namespace fleet {

enum class Dtype { kFloat32, kFloat16, kBfloat16 };

Dtype dtype_of(const std::string& name);

class Format {
 public:
  Format(std::size_t width, const Rule& rule, Dtype dtype)
      : width(width),
        dtype(dtype),
        state_width(rule.state_width(width)),
        state_at_((width * value_size() + 3) / 4 * 4) {}

  const std::size_t width;
  const Dtype dtype;
  const std::size_t state_width;

  std::size_t value_size() const { return dtype == Dtype::kFloat32 ? 4 : 2; }
  std::size_t row_bytes() const { return state_at_ + state_width * sizeof(float); }
  std::size_t state_at() const { return state_at_; }

  float* state(std::byte* row) const { return reinterpret_cast<float*>(row + state_at_); }
  const float* state(const std::byte* row) const { return reinterpret_cast<const float*>(row + state_at_); }

  void load(const std::byte* row, float* out) const {
    if (dtype == Dtype::kFloat32) {
      copy(reinterpret_cast<const float*>(row), out);
    } else if (dtype == Dtype::kFloat16) {
      load_half<Float16>(row, out);
    } else {
      load_half<Bfloat16>(row, out);
    }
  }

  void store(const float* values, std::byte* row) const {
    if (dtype == Dtype::kFloat32) {
      std::memcpy(row, values, width * sizeof(float));
    } else if (dtype == Dtype::kFloat16) {
      store_half<Float16>(values, row);
    } else {
      store_half<Bfloat16>(values, row);
    }
  }

  // Rounded by chance, where values do not fit; see table/rounding.h.
  void store(const float* values, std::byte* row, std::uint64_t state) const {
    if (dtype == Dtype::kFloat32) {
      store(values, row);
    } else if (dtype == Dtype::kFloat16) {
      store_by_chance<Float16>(values, width, state, reinterpret_cast<std::uint16_t*>(row));
    } else {
      store_by_chance<Bfloat16>(values, width, state, reinterpret_cast<std::uint16_t*>(row));
    }
  }

  // What is left of values that were stored and loaded again.
  void round(float* values) const {
    for (std::size_t i = 0; i < width && dtype != Dtype::kFloat32; ++i) {
      values[i] = dtype == Dtype::kFloat16 ? Float16::load(Float16::store(values[i]))
                                           : Bfloat16::load(Bfloat16::store(values[i]));
    }
  }

 private:
  // Rows are short: sixteen bytes at a time beats a call of memcpy.
  void copy(const float* __restrict from, float* __restrict to) const {
    std::size_t i = 0;
    for (; i + 4 <= width; i += 4) std::memcpy(to + i, from + i, 16);
    for (; i < width; ++i) to[i] = from[i];
  }

  template <class Half>
  void load_half(const std::byte* row, float* out) const {
    const auto* stored = reinterpret_cast<const std::uint16_t*>(row);
    for (std::size_t i = 0; i < width; ++i) out[i] = Half::load(stored[i]);
  }

  template <class Half>
  void store_half(const float* values, std::byte* row) const {
    auto* stored = reinterpret_cast<std::uint16_t*>(row);
    for (std::size_t i = 0; i < width; ++i) stored[i] = Half::store(values[i]);
  }

  std::size_t state_at_;
};

}  // namespace fleet
