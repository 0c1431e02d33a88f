// The first page of a run. A contract on disk: fields keep their place; another meaning is another kVersion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "checksum/crc32c.h"

namespace fleet::disk {

struct Head {
  static constexpr std::uint64_t kMagic = 0x314e5552544c46u;  // "FLTRUN1"
  static constexpr std::uint32_t kVersion = 1;

  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t record_bytes = 0;
  std::uint32_t has_clicks = 0;
  std::uint32_t level = 0;
  std::uint64_t size = 0;  // records
  std::uint64_t num_blocks = 0;
  std::uint64_t bloom_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::uint32_t oldest_step = 0, newest_step = 0;
  std::uint32_t index_sum = 0;  // of fences and filter
  std::uint32_t sum = 0;        // of everything before it

  static Head of(const std::byte* page) {
    Head head;
    std::memcpy(&head, page, sizeof(head));
    return head;
  }

  std::uint32_t own_sum() const { return crc32c(this, offsetof(Head, sum)); }
  bool is_whole() const { return magic == kMagic && version == kVersion && sum == own_sum(); }
};

static_assert(sizeof(Head) == 72);

}  // namespace fleet::disk
