// From a key to the number of its row: open addressing in buckets of one cache line.
//
// A bucket holds five keys with their row numbers, so that a look-up usually costs one line of memory besides the row.
// Where a key goes is monotone in its hash, so growing reads and writes memory in order, and growing often costs
// little: the buckets stay between 80% and 90% full, which is 14.2 to 16 bytes for each key. A small index grows in
// larger steps, and has up to 20.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "keys/hash.h"

namespace fleet {

class Index {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffu;
  // What an index counts for: this for each key and this once. It is the most that one takes that is not small, unless
  // keys were removed or room was reserved.
  static constexpr std::size_t kBytesEach = 16;
  static constexpr std::size_t kBytesOnce = 5 * 64;

  // Where to look for a key, computed once for each key of a request. All keys of one server share high bits of mix64,
  // and all keys of one shard share its low bits, so the bits are mixed once more.
  static std::uint32_t place(std::uint64_t hash) {
    return static_cast<std::uint32_t>((hash * 0x9e3779b97f4a7c15u) >> 32);
  }

  void prefetch(std::uint32_t place) const { __builtin_prefetch(&buckets_[bucket(place)]); }

  // The row of a key, or kNone.
  std::uint32_t find(std::int64_t key, std::uint32_t place) const {
    if (num_buckets_ == 0) return kNone;
    for (std::size_t b = bucket(place);; b = b + 1 == num_buckets_ ? 0 : b + 1) {
      const Bucket& line = buckets_[b];
      for (int i = 0; i < kSlots; ++i) {
        if (line.keys[i] == key && line.rows[i] != kNone) return line.rows[i];
      }
      if (!line.is_passed) return kNone;
    }
  }

  // Gives a key another row; returns the one before, or kNone, which changes nothing, if the key is not there.
  std::uint32_t replace(std::int64_t key, std::uint32_t place, std::uint32_t row);
  // Adds a key that is not there.
  void insert(std::int64_t key, std::uint32_t place, std::uint32_t row);
  // Makes room for `size` keys in all. Without it, keys that come in the order of for_each pile up at the front of an
  // index that is still small, and each insertion walks past all of them.
  void reserve(std::size_t size);
  // Removes a key; false if it was not there.
  bool erase(std::int64_t key, std::uint32_t place);
  // Gives back the memory that many removed keys have left unused.
  void fit();
  // The same if there is more of it than `count_bytes` says.
  void fit_if_large() {
    if (bytes() > count_bytes(size_)) fit();
  }

  std::size_t size() const { return size_; }
  std::size_t bytes() const { return num_buckets_ * sizeof(Bucket); }
  // What `size` keys count for, however they came there.
  static std::size_t count_bytes(std::size_t size) { return size == 0 ? 0 : size * kBytesEach + kBytesOnce; }
  // Less than half of the keys that would fit are there.
  bool is_sparse() const { return size_ < limit_ / 2; }

  // visit(key, row) for every key. `visit` may change rows, not the index.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t b = 0; b < num_buckets_; ++b) {
      for (int i = 0; i < kSlots; ++i) {
        if (buckets_[b].rows[i] != kNone) visit(buckets_[b].keys[i], buckets_[b].rows[i]);
      }
    }
  }

 private:
  static constexpr int kSlots = 5;

  struct alignas(64) Bucket {
    std::int64_t keys[kSlots];
    std::uint32_t rows[kSlots];  // kNone: the slot is empty
    std::uint32_t is_passed;     // a key that belongs here, or before, may lie in a later bucket
  };
  static_assert(sizeof(Bucket) == 64);

  std::size_t bucket(std::uint32_t place) const { return (static_cast<std::uint64_t>(place) * num_buckets_) >> 32; }
  static std::size_t buckets_for(std::size_t size) { return size * 10 / (9 * kSlots) + 1; }
  std::size_t grown() const;
  void rebuild(std::size_t num_buckets);
  void put(std::int64_t key, std::uint32_t place, std::uint32_t row);

  struct Free {
    explicit Free(std::size_t bytes) : bytes(bytes) {}
    void operator()(Bucket* buckets) const;
    std::size_t bytes;
  };

  std::unique_ptr<Bucket[], Free> buckets_{nullptr, Free(0)};
  std::size_t num_buckets_ = 0;
  std::size_t size_ = 0;
  std::size_t limit_ = 0;       // keys that fit before the next growth
  std::size_t num_passed_ = 0;  // buckets
  std::size_t max_passed_ = 0;  // before the buckets are filled anew; less than all, or a search would never end
};

}  // namespace fleet
