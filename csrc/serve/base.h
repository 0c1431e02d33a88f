// A base: all rows of a table in one file that is mapped, never changed, and may be larger than memory.
//
//   page 0   what the file is: version, width, format, counts, where the parts begin, a checksum of each part and of
//            all this
//   starts   uint32 for each bucket and one more: the number of the first row of the bucket
//   keys     int64 for each row, bucket after bucket
//   rows     for each row, in the order of the keys, float32 or int8 as compress/format.h has it
//
// A bucket has four keys in the mean. So a row costs a line of memory for the bucket, one for its keys, and the row
// itself; whoever has many keys asks for each of the three ahead, and no key waits for another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "compress/format.h"

namespace fleet::serve {

class Base {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  // DiskError if the file is no base, is not whole, is damaged, or is of another version. `in_memory`: a copy in large
  // pages instead of the file's own pages. Starts and keys are always checked, rows where all of them are read anyway,
  // in memory: damage there is a wrong value and nothing worse.
  static std::shared_ptr<const Base> open(const std::string& path, bool in_memory);
  ~Base();
  Base(const Base&) = delete;
  Base& operator=(const Base&) = delete;

  std::size_t width() const { return width_; }
  std::size_t size() const { return size_; }
  WireFormat format() const { return format_; }
  std::size_t file_bytes() const { return bytes_; }

  std::size_t bucket(std::uint32_t place) const { return (static_cast<std::uint64_t>(place) * num_buckets_) >> 32; }
  void prefetch_bucket(std::size_t bucket) const { __builtin_prefetch(&starts_[bucket]); }
  void prefetch_keys(std::size_t bucket) const {
    const std::uint32_t begin = starts_[bucket], end = starts_[bucket + 1];
    __builtin_prefetch(&keys_[begin]);
    if (end > begin + 1) __builtin_prefetch(&keys_[end - 1]);
  }
  // The number of a key's row, or kNone.
  std::uint32_t find(std::int64_t key, std::size_t bucket) const {
    for (std::uint32_t i = starts_[bucket], end = starts_[bucket + 1]; i < end; ++i) {
      if (keys_[i] == key) return i;
    }
    return kNone;
  }
  void prefetch_row(std::uint32_t row) const {
    const std::byte* data = rows_ + row * row_bytes_;
    for (std::size_t at = 0; at < row_bytes_; at += 64) __builtin_prefetch(data + at);
    __builtin_prefetch(data + row_bytes_ - 1);
  }
  void read(std::uint32_t row, float* out) const;

 private:
  Base() = default;

  void* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0, bytes_ = 0;
  std::size_t width_ = 0, size_ = 0, num_buckets_ = 0, row_bytes_ = 0;
  WireFormat format_ = WireFormat::kFloat32;
  const std::uint32_t* starts_ = nullptr;
  const std::int64_t* keys_ = nullptr;
  const std::byte* rows_ = nullptr;
};

// Writes a base from rows in any order, which it is given once to count and then once for each pass: a pass takes what
// fits into memory, in the order of the file. Without `finish` the file is no base.
class BaseWriter {
 public:
  BaseWriter(std::string path, std::size_t width, WireFormat format, std::size_t size, std::size_t memory_bytes);
  ~BaseWriter();
  BaseWriter(const BaseWriter&) = delete;
  BaseWriter& operator=(const BaseWriter&) = delete;

  void count(const std::int64_t* keys, std::size_t n);
  // Begins the next pass; false when all is written. Before the first one everything must have been counted.
  bool next_pass();
  void add(const std::int64_t* keys, std::size_t n, const float* rows);
  void finish();

  std::size_t width() const { return width_; }

 private:
  void begin_passes();
  void end_pass();
  void write(const void* data, std::size_t bytes, std::uint64_t offset);

  std::string path_;
  int descriptor_;
  std::size_t width_, size_, num_buckets_, row_bytes_, memory_bytes_;
  WireFormat format_;
  std::uint64_t keys_at_, rows_at_, end_at_;
  std::uint32_t keys_sum_ = 0, rows_sum_ = 0;
  std::vector<std::uint32_t> starts_;  // until the first pass: how many keys each bucket has, one further on
  std::vector<std::uint32_t> filled_;  // of the buckets of the present pass
  bool has_begun_ = false;
  std::size_t first_ = 0, last_ = 0;  // buckets of the present pass
  std::vector<std::int64_t> keys_;
  std::vector<std::uint8_t> rows_;
};

}  // namespace fleet::serve
