// A run read from its first byte to its last, to see whether it is what was written.
#pragma once

#include <memory>
#include <string>

#include "disk/run.h"

namespace fleet::disk {

class RunCheck {
 public:
  // DiskError if it is damaged, or `wanted` is not 0 and it is another run.
  explicit RunCheck(const std::string& path, std::uint64_t wanted = 0);

  // Reads about so many bytes more; whether any are left. DiskError if they are not what was written.
  bool next(std::size_t bytes);

  std::uint64_t file_bytes() const { return run_->file_bytes(); }
  std::uint64_t done_bytes() const { return offset_; }
  // Of the bytes that were read: at the end, of the whole file.
  std::uint32_t checksum() const { return checksum_; }

 private:
  void look_at(const std::byte* blocks, std::size_t count);

  std::shared_ptr<const Run> run_;
  std::uint64_t offset_ = 0, last_hash_ = 0;
  std::size_t block_ = 0, num_records_ = 0;
  std::uint32_t checksum_ = 0;
};

}  // namespace fleet::disk
