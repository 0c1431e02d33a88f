#include "compress/format.h"

#include <algorithm>
#include <cstring>

#include "compress/half_wire.h"
#include "table/finite.h"
#include "table/rounding.h"

namespace fleet {
namespace {

constexpr std::size_t kScaleBytes = 2;

void put16(std::uint8_t* to, std::uint16_t value) { std::memcpy(to, &value, sizeof value); }

std::uint16_t get16(const std::uint8_t* from) {
  std::uint16_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class Half>
void store_all(const float* __restrict values, std::size_t n, std::uint8_t* __restrict out) {
  for (std::size_t i = 0; i < n; ++i) put16(out + 2 * i, Half::store(values[i]));
}

template <class Half>
void load_all(const std::uint8_t* __restrict data, std::size_t n, float* __restrict values) {
  for (std::size_t i = 0; i < n; ++i) values[i] = Half::load(get16(data + 2 * i));
}

// The next bfloat16 that is not below largest / 127: no value needs more than 127 of them.
std::uint16_t scale_of(float largest) {
  if (largest == 0) return 0;
  const std::uint32_t bits = bits_of(largest / 127.0f);
  if (bits >= 0x7f800000u) return 0x7fc0u;  // the row has an infinity or a NaN
  return static_cast<std::uint16_t>(std::max<std::uint32_t>((bits + 0xffffu) >> 16, 1));
}

// Rounds to the nearest: so large a number has no bits left for a fraction, and its lowest bits are the integer.
std::int32_t nearest(float value) { return static_cast<std::int32_t>(bits_of(value + 12582912.0f) - 0x4b400000u); }

void store_int8(const float* __restrict values, std::size_t width, std::uint8_t* __restrict out) {
  const std::uint16_t stored = scale_of(largest(values, width));
  put16(out, stored);
  out += kScaleBytes;
  const float scale = Bfloat16::load(stored);
  if (!(scale > 0)) {
    std::memset(out, 0, width);
    return;
  }
  for (std::size_t i = 0; i < width; ++i) {
    out[i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(nearest(values[i] / scale)));
  }
}

void load_int8(const std::uint8_t* __restrict data, std::size_t width, float* __restrict values) {
  const float scale = Bfloat16::load(get16(data));
  data += kScaleBytes;
  for (std::size_t i = 0; i < width; ++i) {
    values[i] = scale * static_cast<float>(static_cast<std::int8_t>(data[i]));
  }
}

// Four draws for every four values, the lowest first, as store_by_chance has them.
template <class Store>
void with_draws(std::size_t width, std::uint64_t state, const Store& store) {
  for (std::size_t i = 0; i < width; i += 4) {
    std::uint64_t draws = next_draws(state);
    for (std::size_t j = i; j < std::min(i + 4, width); ++j, draws >>= 16) store(j, static_cast<std::uint16_t>(draws));
  }
}

void store_int8_by_chance(const float* values, std::size_t width, std::uint64_t state, std::uint8_t* out) {
  const std::uint16_t stored = scale_of(largest(values, width));
  put16(out, stored);
  out += kScaleBytes;
  const float scale = Bfloat16::load(stored);
  if (!(scale > 0)) {
    std::memset(out, 0, width);
    return;
  }
  with_draws(width, state, [&](std::size_t i, std::uint16_t draw) {
    // Not below 0 once 128 is added, so that to cut off is to round down.
    const float above = values[i] / scale + 128.0f + static_cast<float>(draw) * 0x1p-16f;
    const std::int32_t rounded = static_cast<std::int32_t>(above) - 128;
    out[i] = static_cast<std::uint8_t>(std::clamp(rounded, -127, 127));
  });
}

}  // namespace

std::size_t row_bytes(WireFormat format, std::size_t width) {
  switch (format) {
    case WireFormat::kFloat32: return 4 * width;
    case WireFormat::kBfloat16:
    case WireFormat::kFloat16: return 2 * width;
    case WireFormat::kInt8: return kScaleBytes + width;
  }
  return 0;
}

void encode_rows(WireFormat format, const float* rows, std::size_t n, std::size_t width, std::uint8_t* out) {
  switch (format) {
    case WireFormat::kFloat32:
      if (n * width != 0) std::memcpy(out, rows, 4 * n * width);
      return;
    case WireFormat::kBfloat16: return store_all<WireBfloat16>(rows, n * width, out);
    case WireFormat::kFloat16: return store_all<WireFloat16>(rows, n * width, out);
    case WireFormat::kInt8:
      for (std::size_t row = 0; row < n; ++row)
        store_int8(rows + row * width, width, out + row * (kScaleBytes + width));
  }
}

void encode_rows_by_chance(WireFormat format, const float* rows, std::size_t n, std::size_t width,
                           const std::int64_t* keys, std::uint64_t seed, std::uint32_t step, std::uint8_t* out) {
  if (format != WireFormat::kFloat16 && format != WireFormat::kInt8) return encode_rows(format, rows, n, width, out);
  const std::size_t stride = row_bytes(format, width);
  for (std::size_t row = 0; row < n; ++row, rows += width, out += stride) {
    const std::uint64_t state = rounding_state(seed, keys[row], step);
    if (format == WireFormat::kInt8) {
      store_int8_by_chance(rows, width, state, out);
    } else {
      with_draws(width, state,
                 [&](std::size_t i, std::uint16_t draw) { put16(out + 2 * i, WireFloat16::store(rows[i], draw)); });
    }
  }
}

void decode_rows(WireFormat format, const std::uint8_t* data, std::size_t n, std::size_t width, float* rows) {
  switch (format) {
    case WireFormat::kFloat32:
      if (n * width != 0) std::memcpy(rows, data, 4 * n * width);
      return;
    case WireFormat::kBfloat16: return load_all<WireBfloat16>(data, n * width, rows);
    case WireFormat::kFloat16: return load_all<WireFloat16>(data, n * width, rows);
    case WireFormat::kInt8:
      for (std::size_t row = 0; row < n; ++row)
        load_int8(data + row * (kScaleBytes + width), width, rows + row * width);
  }
}

std::size_t vector_bytes(WireFormat format, std::size_t n) {
  const std::size_t rest = n % kBlockWidth;
  return n / kBlockWidth * row_bytes(format, kBlockWidth) + (rest == 0 ? 0 : row_bytes(format, rest));
}

void encode_vector(WireFormat format, const float* values, float* residual, std::size_t n, std::uint8_t* out) {
  float sums[kBlockWidth], sent[kBlockWidth];
  const std::size_t stride = row_bytes(format, kBlockWidth);
  if (residual == nullptr) {
    const std::size_t full = n / kBlockWidth, rest = n % kBlockWidth;
    encode_rows(format, values, full, kBlockWidth, out);
    if (rest != 0) encode_rows(format, values + full * kBlockWidth, 1, rest, out + full * stride);
    return;
  }
  for (std::size_t begin = 0; begin < n; begin += kBlockWidth, out += stride) {
    const std::size_t width = std::min(kBlockWidth, n - begin);
    float* const left = residual + begin;
    for (std::size_t i = 0; i < width; ++i) sums[i] = values[begin + i] + left[i];
    encode_rows(format, sums, 1, width, out);
    decode_rows(format, out, 1, width, sent);
    for (std::size_t i = 0; i < width; ++i) {
      const float rest = sums[i] - sent[i];
      left[i] = (bits_of(rest) & 0x7f800000u) == 0x7f800000u ? left[i] : rest;
    }
  }
}

void decode_vector(WireFormat format, const std::uint8_t* data, std::size_t n, float* values) {
  const std::size_t full = n / kBlockWidth, rest = n % kBlockWidth;
  decode_rows(format, data, full, kBlockWidth, values);
  data += full * row_bytes(format, kBlockWidth);
  if (rest != 0) decode_rows(format, data, 1, rest, values + full * kBlockWidth);
}

}  // namespace fleet
