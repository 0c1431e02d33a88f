#include "table/index.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace fleet {

namespace {

constexpr std::size_t kFirstBuckets = 4;
constexpr std::size_t kLargePage = std::size_t{2} << 20;
constexpr std::size_t kMapped = kLargePage;

// Large indexes are mapped: they are gone at once when they have grown, and lie in large pages, for which they must
// begin at a multiple of one.
void* allocate(std::size_t bytes) {
  if (bytes < kMapped) {
    void* data = std::aligned_alloc(64, bytes);
    if (data == nullptr) throw std::bad_alloc();
    return data;
  }
  void* data = mmap(nullptr, bytes + kLargePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::size_t before = (kLargePage - address % kLargePage) % kLargePage;
  const std::size_t page = 4096;
  const std::size_t end = before + (bytes + page - 1) / page * page;
  auto* start = static_cast<std::byte*>(data) + before;
  if (before != 0) munmap(data, before);
  if (end < bytes + kLargePage) munmap(static_cast<std::byte*>(data) + end, bytes + kLargePage - end);
  madvise(start, bytes, MADV_HUGEPAGE);
  return start;
}

}  // namespace

void Index::Free::operator()(Bucket* buckets) const {
  if (bytes < kMapped) {
    std::free(buckets);
  } else {
    munmap(buckets, bytes);
  }
}

void Index::insert(std::int64_t key, std::uint32_t place, std::uint32_t row) {
  if (size_ == limit_) grow();
  put(key, place, row);
  ++size_;
}

void Index::put(std::int64_t key, std::uint32_t place, std::uint32_t row) {
  for (std::size_t b = bucket(place);; b = b + 1 == num_buckets_ ? 0 : b + 1) {
    Bucket& line = buckets_[b];
    for (int i = 0; i < kSlots; ++i) {
      if (line.rows[i] == kNone) {
        line.keys[i] = key;
        line.rows[i] = row;
        return;
      }
    }
    line.is_passed = 1;
  }
}

bool Index::erase(std::int64_t key, std::uint32_t place) {
  if (num_buckets_ == 0) return false;
  for (std::size_t b = bucket(place);; b = b + 1 == num_buckets_ ? 0 : b + 1) {
    Bucket& line = buckets_[b];
    for (int i = 0; i < kSlots; ++i) {
      if (line.keys[i] == key && line.rows[i] != kNone) {
        line.rows[i] = kNone;  // the bucket stays passed: what lies behind it must be found
        --size_;
        return true;
      }
    }
    if (!line.is_passed) return false;
  }
}

void Index::grow() { rebuild(std::max(kFirstBuckets, num_buckets_ + num_buckets_ * 15 / 100 + 4)); }

void Index::reserve(std::size_t size) {
  if (size > limit_) rebuild(size * 10 / (9 * kSlots) + 1);
}

void Index::rebuild(std::size_t count) {
  const std::size_t old_count = num_buckets_;
  const std::size_t bytes = count * sizeof(Bucket);
  auto* fresh = static_cast<Bucket*>(allocate(bytes));
  for (std::size_t b = 0; b < count; ++b) {
    std::fill(fresh[b].keys, fresh[b].keys + kSlots, 0);
    std::fill(fresh[b].rows, fresh[b].rows + kSlots, kNone);
    fresh[b].is_passed = 0;
  }
  const std::unique_ptr<Bucket[], Free> old =
      std::exchange(buckets_, std::unique_ptr<Bucket[], Free>(fresh, Free(bytes)));
  num_buckets_ = count;
  limit_ = count * kSlots * 9 / 10;
  for (std::size_t b = 0; b < old_count; ++b) {
    for (int i = 0; i < kSlots; ++i) {
      if (old[b].rows[i] != kNone) put(old[b].keys[i], place(mix64(old[b].keys[i])), old[b].rows[i]);
    }
  }
}

}  // namespace fleet
