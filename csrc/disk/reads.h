// Many reads at a time: a disk answers a hundred about as soon as one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "disk/file.h"

namespace fleet::disk {

struct Read {
  const File* file;
  std::uint64_t offset;
  std::byte* to;
  std::size_t bytes;
};

// Returns when all are done; DiskError for one that failed. By io_uring where the system has it, else by threads that
// live as long as the call.
void read_many(const Read* reads, std::size_t n);

// The same by threads.
void read_many_by_threads(const Read* reads, std::size_t n);

// Whether this system has io_uring, and lets us use it.
bool has_ring();

}  // namespace fleet::disk
