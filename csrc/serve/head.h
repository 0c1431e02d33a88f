// The first page of a base.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checksum/crc32c.h"

namespace fleet::serve {

constexpr char kMagic[8] = {'f', 'l', 'e', 'e', 't', 's', 'b', '2'};

struct Head {
  char magic[8];
  std::uint64_t width, size, num_buckets, format;
  std::uint64_t keys_at, rows_at, end_at;
  std::uint32_t starts_sum, keys_sum, rows_sum;  // crc32c of each part
  std::uint32_t checksum;                        // of what stands before it
};

inline std::uint32_t checksum_of(const Head& head) { return crc32c(&head, offsetof(Head, checksum)); }

}  // namespace fleet::serve
