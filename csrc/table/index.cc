#include "table/index.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace fleet {

namespace {

constexpr std::size_t kFirstBuckets = 4;
constexpr std::size_t kSmallBuckets = 4096;  // so many are less than the rows of the keys in them by far
constexpr std::size_t kLargePage = std::size_t{2} << 20;
constexpr std::size_t kMapped = std::size_t{64} << 10;

// All but small indexes are mapped: they are gone at once when they have grown, where the heap would keep the holes.
// Large ones lie in large pages, for which they must begin at a multiple of one.
void* allocate(std::size_t bytes) {
  if (bytes < kMapped) {
    void* data = std::aligned_alloc(64, bytes);
    if (data == nullptr) throw std::bad_alloc();
    return data;
  }
  const std::size_t spare = bytes < kLargePage ? 0 : kLargePage;
  void* data = mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  if (spare == 0) return data;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::size_t before = (kLargePage - address % kLargePage) % kLargePage;
  const std::size_t page = 4096;
  const std::size_t end = before + (bytes + page - 1) / page * page;
  auto* start = static_cast<std::byte*>(data) + before;
  if (before != 0) munmap(data, before);
  if (end < bytes + spare) munmap(static_cast<std::byte*>(data) + end, bytes + spare - end);
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
  // Removed keys leave passed buckets behind. Where keys come and go, most would become so, and searches long.
  if (size_ == limit_) {
    rebuild(grown());
  } else if (num_passed_ > max_passed_) {
    rebuild(num_buckets_);
  }
  put(key, place, row);
  ++size_;
  if (num_passed_ == num_buckets_) rebuild(num_buckets_);  // a search for a key that is not there would never end
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
    num_passed_ += 1 - line.is_passed;
    line.is_passed = 1;
  }
}

std::uint32_t Index::replace(std::int64_t key, std::uint32_t place, std::uint32_t row) {
  if (num_buckets_ == 0) return kNone;
  for (std::size_t b = bucket(place);; b = b + 1 == num_buckets_ ? 0 : b + 1) {
    Bucket& line = buckets_[b];
    for (int i = 0; i < kSlots; ++i) {
      if (line.keys[i] == key && line.rows[i] != kNone) return std::exchange(line.rows[i], row);
    }
    if (!line.is_passed) return kNone;
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

// In small steps, for memory's sake. Each moves all keys, so that they are moved eight times: where a table is young,
// and most of its keys are new, that would be a third of a push.
std::size_t Index::grown() const {
  const std::size_t percent = num_buckets_ < kSmallBuckets ? 40 : 12;
  return std::max(kFirstBuckets, num_buckets_ + num_buckets_ * percent / 100 + 4);
}

void Index::reserve(std::size_t size) {
  // At least as much as growing does: pieces that reserve room one after the other must not move all keys each time.
  if (size > limit_) rebuild(std::max(buckets_for(size), grown()));
}

void Index::fit() {
  if (size_ == 0) {
    *this = Index();
  } else if (buckets_for(size_) < num_buckets_) {
    rebuild(buckets_for(size_));
  }
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
  num_passed_ = 0;
  for (std::size_t b = 0; b < old_count; ++b) {
    for (int i = 0; i < kSlots; ++i) {
      if (old[b].rows[i] != kNone) put(old[b].keys[i], place(mix64(old[b].keys[i])), old[b].rows[i]);
    }
  }
  // One bucket at least is not full, so not all are passed now.
  max_passed_ = std::max(num_passed_ + (count - num_passed_) / 2, count * 3 / 4);
}

}  // namespace fleet
