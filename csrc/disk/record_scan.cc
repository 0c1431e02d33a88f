#include "disk/record_scan.h"

#include <algorithm>
#include <cstring>

#include "checksum/crc32c.h"

namespace fleet::disk {

namespace {

constexpr std::uint32_t kMagic = 0x314A4C46;  // "FLJ1"
constexpr std::size_t kChecked = 8;           // from here the head has a checksum

template <class T>
T at(const std::byte* head, std::size_t offset) {
  T value;
  std::memcpy(&value, head + offset, sizeof(value));
  return value;
}

}  // namespace

bool RecordScan::take(const std::byte* data, std::size_t n) {
  while (n != 0) {
    if (num_head_ < kHead) {
      const std::size_t some = std::min(n, kHead - num_head_);
      std::memcpy(head_ + num_head_, data, some);
      num_head_ += some;
      data += some;
      n -= some;
      if (num_head_ == kHead && !begin_record()) return false;
    } else {
      const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(n, left_));
      found_ = crc32c(data, some, found_);
      data += some;
      n -= some;
      left_ -= some;
    }
    if (num_head_ == kHead && left_ == 0 && !end_record()) return false;
  }
  return true;
}

bool RecordScan::begin_record() {
  size_ = at<std::uint64_t>(head_, 24);
  if (at<std::uint32_t>(head_, 0) != kMagic || size_ < kHead ||
      at<std::uint32_t>(head_, 4) != crc32c(head_ + kChecked, kHead - kChecked)) {
    return false;
  }
  expected_ = at<std::uint32_t>(head_, 8);
  number_ = at<std::uint64_t>(head_, 16);
  left_ = size_ - kHead;
  found_ = 0;
  return true;
}

bool RecordScan::end_record() {
  if (found_ != expected_) return false;
  if (num_records_++ == 0) {
    first_ = number_;
  } else if (number_ != last_ + 1) {
    is_in_order_ = false;
  }
  last_ = number_;
  most_ = std::max(most_, number_);
  chain_before_ = chain_;
  chain_ = crc32c(head_, kHead, chain_);
  last_begin_ = begin_;
  begin_ += size_;
  num_head_ = 0;
  return true;
}

}  // namespace fleet::disk
