// Memory for the rows of one table, handed out in blocks and given back when the table goes.
//
// Blocks are carved from regions of the operating system. A small table touches only the pages it fills; once a table
// is large, its regions ask for large pages, without which most of a random access is spent on translating the address.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

namespace fleet {

class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // `bytes` of zeros, aligned to a page; std::bad_alloc when the system has no more. Lives as long as the arena.
  std::byte* allocate(std::size_t bytes);

 private:
  struct Region {
    std::byte* data;
    std::size_t bytes;
  };

  std::mutex mutex_;
  std::vector<Region> regions_;
  std::size_t used_ = 0;   // of the last region
  std::size_t total_ = 0;  // of all regions
};

}  // namespace fleet
