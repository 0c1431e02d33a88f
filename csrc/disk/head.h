// The first page of a run. A contract on disk: fields keep their place; another meaning is another kVersion. Runs of
// the first version have no id, and their blocks may be taken for those of another file, or of another place in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "checksum/crc32c.h"

namespace fleet::disk {

struct Head {
  static constexpr std::uint64_t kMagic = 0x314e5552544c46u;  // "FLTRUN1"
  static constexpr std::uint32_t kWithoutId = 1, kVersion = 2;

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
  std::uint32_t sum = 0;        // of everything before it, then of the id
  std::uint64_t id = 0;         // drawn by chance: which run this is, whatever its name

  static Head of(const std::byte* page) {
    Head head;
    std::memcpy(&head, page, sizeof(head));
    if (head.version == kWithoutId) head.id = 0;
    return head;
  }

  std::uint32_t own_sum() const {
    const std::uint32_t before = crc32c(this, offsetof(Head, sum));
    return version == kWithoutId ? before : crc32c(&id, sizeof(id), before);
  }
  bool is_whole() const {
    return magic == kMagic && (version == kWithoutId || version == kVersion) && sum == own_sum();
  }
};

// What the checksum of a block begins with: a block of another run, or of another place, has another.
inline std::uint32_t block_start(std::uint64_t id, std::uint64_t number) {
  return id == 0 ? 0 : crc32c(&number, sizeof(number), crc32c(&id, sizeof(id)));
}

static_assert(sizeof(Head) == 80 && offsetof(Head, id) == 72);

}  // namespace fleet::disk
