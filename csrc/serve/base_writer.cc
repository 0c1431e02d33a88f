#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "checksum/crc32c.h"
#include "disk/file.h"
#include "keys/hash.h"
#include "serve/base.h"
#include "serve/head.h"
#include "table/index.h"

namespace fleet::serve {

namespace {

constexpr std::size_t kMeanKeys = 4;

}  // namespace

BaseWriter::BaseWriter(std::string path, std::size_t width, WireFormat format, std::size_t size,
                       std::size_t memory_bytes)
    : path_(std::move(path)),
      width_(width),
      size_(size),
      num_buckets_(size / kMeanKeys + 1),
      row_bytes_(row_bytes(format, width)),
      memory_bytes_(memory_bytes),
      format_(format),
      keys_at_(disk::round_up(disk::kPage + (num_buckets_ + 1) * sizeof(std::uint32_t))),
      rows_at_(disk::round_up(keys_at_ + size * sizeof(std::int64_t))),
      end_at_(rows_at_ + size * row_bytes_),
      starts_(num_buckets_ + 1, 0) {
  if (size >= Base::kNone) throw std::invalid_argument("a base holds fewer than 2^32 - 1 rows");
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor_ < 0) throw disk::failure("cannot be made", path_, errno);
}

BaseWriter::~BaseWriter() { ::close(descriptor_); }

void BaseWriter::write(const void* data, std::size_t bytes, std::uint64_t offset) {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t put = ::pwrite(descriptor_, from, bytes, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) throw disk::failure("cannot be written", path_, put < 0 ? errno : ENOSPC);
    from += put;
    offset += static_cast<std::uint64_t>(put);
    bytes -= static_cast<std::size_t>(put);
  }
}

void BaseWriter::count(const std::int64_t* keys, std::size_t n) {
  if (has_begun_) throw std::logic_error("rows are counted before the first pass");
  for (std::size_t i = 0; i < n; ++i) {
    ++starts_[((static_cast<std::uint64_t>(Index::place(mix64(keys[i]))) * num_buckets_) >> 32) + 1];
  }
}

void BaseWriter::begin_passes() {
  has_begun_ = true;
  std::uint64_t sum = 0;
  for (std::uint32_t& start : starts_) {
    sum += start;
    start = static_cast<std::uint32_t>(sum);
  }
  if (sum != size_) {
    throw std::invalid_argument("a base of " + std::to_string(size_) + " rows was given " + std::to_string(sum));
  }
}

bool BaseWriter::next_pass() {
  if (!has_begun_) {
    begin_passes();
  } else if (last_ > first_) {
    end_pass();
  }
  first_ = last_;
  if (first_ == num_buckets_) return false;
  const std::size_t each = sizeof(std::int64_t) + row_bytes_;
  const std::uint32_t begin = starts_[first_];
  do {
    ++last_;
  } while (last_ < num_buckets_ && (starts_[last_ + 1] - begin) * each <= memory_bytes_);
  const std::size_t rows = starts_[last_] - begin;
  keys_.resize(rows);
  rows_.resize(rows * row_bytes_);
  filled_.assign(last_ - first_, 0);
  return true;
}

void BaseWriter::add(const std::int64_t* keys, std::size_t n, const float* rows) {
  const std::uint32_t begin = starts_[first_];
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t bucket = (static_cast<std::uint64_t>(Index::place(mix64(keys[i]))) * num_buckets_) >> 32;
    if (bucket < first_ || bucket >= last_) continue;
    std::uint32_t& filled = filled_[bucket - first_];
    const std::uint32_t at = starts_[bucket] + filled;
    if (at == starts_[bucket + 1]) throw std::invalid_argument("a pass was given a row that was not counted");
    ++filled;
    keys_[at - begin] = keys[i];
    encode_rows(format_, rows + i * width_, 1, width_, rows_.data() + (at - begin) * row_bytes_);
  }
}

void BaseWriter::end_pass() {
  const std::uint32_t begin = starts_[first_];
  for (std::size_t bucket = first_; bucket < last_; ++bucket) {
    const std::uint32_t from = starts_[bucket] - begin, to = starts_[bucket + 1] - begin;
    if (filled_[bucket - first_] != to - from) throw std::invalid_argument("a pass lacks a row that was counted");
    for (std::uint32_t i = from; i < to; ++i) {
      for (std::uint32_t j = from; j < i; ++j) {
        if (keys_[i] == keys_[j]) {
          throw std::invalid_argument("key " + std::to_string(keys_[i]) + " has two rows; save the model again");
        }
      }
    }
  }
  keys_sum_ = crc32c(keys_.data(), keys_.size() * sizeof(std::int64_t), keys_sum_);
  rows_sum_ = crc32c(rows_.data(), rows_.size(), rows_sum_);
  write(keys_.data(), keys_.size() * sizeof(std::int64_t), keys_at_ + begin * sizeof(std::int64_t));
  write(rows_.data(), rows_.size(), rows_at_ + begin * row_bytes_);
}

void BaseWriter::finish() {
  if (!has_begun_ || last_ != num_buckets_ || first_ != last_) throw std::logic_error("a base ends after its passes");
  write(starts_.data(), starts_.size() * sizeof(std::uint32_t), disk::kPage);
  if (::ftruncate(descriptor_, static_cast<off_t>(end_at_)) != 0)
    throw disk::failure("cannot be written", path_, errno);
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof(kMagic));
  head.width = width_;
  head.size = size_;
  head.num_buckets = num_buckets_;
  head.format = static_cast<std::uint64_t>(format_);
  head.keys_at = keys_at_;
  head.rows_at = rows_at_;
  head.end_at = end_at_;
  head.starts_sum = crc32c(starts_.data(), starts_.size() * sizeof(std::uint32_t));
  head.keys_sum = keys_sum_;
  head.rows_sum = rows_sum_;
  head.checksum = checksum_of(head);
  if (::fdatasync(descriptor_) != 0) throw disk::failure("cannot be written", path_, errno);
  write(&head, sizeof(head), 0);  // last: what is not whole has none
  if (::fdatasync(descriptor_) != 0) throw disk::failure("cannot be written", path_, errno);
}

}  // namespace fleet::serve
