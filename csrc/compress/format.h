// How floats travel between workers and servers in fewer bytes.
//
//   float32    4 bytes, as they are
//   bfloat16   2 bytes: the upper half of a float
//   float16    2 bytes: IEEE half precision
//   int8       rows: a scale, which is a bfloat16, then one int8 for each value, which is scale * int8
//
// A finite value stays finite: what lies beyond the largest number of a format becomes that number. An infinity and a
// NaN stay what they are in 16 bits; in int8 the whole row becomes NaN. Everything is little-endian and nothing need be
// aligned. A contract of journals: bytes that were written once mean the same numbers for ever; the tests pin values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fleet {

// The numbers are those of proto/ps.proto.
enum class WireFormat : std::uint8_t { kFloat32 = 0, kBfloat16 = 1, kFloat16 = 2, kInt8 = 3 };
constexpr std::uint8_t kNumFormats = 4;

// How many values of a vector share a scale.
constexpr std::size_t kBlockWidth = 64;

// The bytes of one row. Rows stand on their own, so that some of them can be taken out or put into another order.
std::size_t row_bytes(WireFormat format, std::size_t width);

// Each value becomes the nearest number that there is, of two the even one.
void encode_rows(WireFormat format, const float* rows, std::size_t n, std::size_t width, std::uint8_t* out);

// The same, but where small values would be lost, in float16 and int8, up or down by chance: the mean of many roundings
// is the value itself. Chance is a function of (seed, key of the row, step, place in the row) alone (table/rounding.h).
void encode_rows_by_chance(WireFormat format, const float* rows, std::size_t n, std::size_t width,
                           const std::int64_t* keys, std::uint64_t seed, std::uint32_t step, std::uint8_t* out);

void decode_rows(WireFormat format, const std::uint8_t* data, std::size_t n, std::size_t width, float* rows);

// A vector is rows of kBlockWidth values, and one that may be shorter.
std::size_t vector_bytes(WireFormat format, std::size_t n);

// Encodes values + residual, and leaves in the residual what the receiver does not get of it: over many steps nothing
// is lost. Where that is no finite number, the residual stays as it was. Without a residual (nullptr) values alone.
void encode_vector(WireFormat format, const float* values, float* residual, std::size_t n, std::uint8_t* out);

void decode_vector(WireFormat format, const std::uint8_t* data, std::size_t n, float* values);

}  // namespace fleet
