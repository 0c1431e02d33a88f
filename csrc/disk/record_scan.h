// Records of a journal or a snapshot, compared with their checksums as the bytes come; what they say is not looked at.
// Their form is that of src/fleet/ps/journal/records.py.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fleet::disk {

class RecordScan {
 public:
  // The next bytes of the file; false if they are not what was written. Then no more may come.
  bool take(const std::byte* data, std::size_t n);

  std::uint64_t num_records() const { return num_records_; }
  std::uint64_t first() const { return first_; }  // the number of the first record; 0: there is none
  std::uint64_t last() const { return last_; }    // that of the last one that is complete
  std::uint64_t most() const { return most_; }    // the largest number
  // Whether the numbers go up by one each.
  bool is_in_order() const { return is_in_order_; }
  // Where the last complete record begins, where it ends, and what follows it.
  std::uint64_t last_begin() const { return last_begin_; }
  std::uint64_t end() const { return begin_; }
  bool is_between() const { return num_head_ == 0; }
  // One checksum of the heads of all records but the last complete one: it changes with any record, and their order.
  std::uint32_t chain() const { return chain_before_; }

 private:
  static constexpr std::size_t kHead = 32;

  bool begin_record();
  bool end_record();

  std::byte head_[kHead] = {};
  std::size_t num_head_ = 0;  // bytes of the head that have come
  std::uint64_t left_ = 0;    // of the body
  std::uint32_t expected_ = 0, found_ = 0;
  std::uint64_t begin_ = 0, size_ = 0, number_ = 0, last_begin_ = 0;
  std::uint64_t num_records_ = 0, first_ = 0, last_ = 0, most_ = 0;
  std::uint32_t chain_ = 0, chain_before_ = 0;
  bool is_in_order_ = true;
};

}  // namespace fleet::disk
