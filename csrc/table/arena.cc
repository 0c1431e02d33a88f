#include "table/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>

namespace fleet {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kRegionUnit = std::size_t{2} << 20;
constexpr std::size_t kRegion = std::size_t{32} << 20;
// Below this a large page would mostly hold nothing.
constexpr std::size_t kLargeTable = std::size_t{128} << 20;

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Arena::~Arena() {
  for (const Region& region : regions_) munmap(region.data, region.bytes);
}

std::byte* Arena::allocate(std::size_t bytes) {
  bytes = round_up(bytes, kPage);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (regions_.empty() || used_ + bytes > regions_.back().bytes) {
    const std::size_t size = round_up(std::max(bytes, kRegion), kRegionUnit);
    void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    if (total_ >= kLargeTable) madvise(data, size, MADV_HUGEPAGE);
    regions_.push_back({static_cast<std::byte*>(data), size});
    total_ += size;
    used_ = 0;
  }
  std::byte* block = regions_.back().data + used_;
  used_ += bytes;
  return block;
}

}  // namespace fleet
