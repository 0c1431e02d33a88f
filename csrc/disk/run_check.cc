#include "disk/run_check.h"

#include <algorithm>

#include "checksum/crc32c.h"

namespace fleet::disk {

RunCheck::RunCheck(const std::string& path, std::uint64_t wanted) : run_(Run::open(path, wanted)) {}

bool RunCheck::next(std::size_t bytes) {
  const std::size_t block_bytes = run_->shape().block_bytes;
  const std::uint64_t end_of_blocks = run_->offset_of(run_->num_blocks());
  std::size_t count = kPage;  // the first page, or at the end a part of the index
  const bool has_blocks = offset_ >= kPage && offset_ < end_of_blocks;
  if (has_blocks) {
    count = std::min(std::max<std::size_t>(1, bytes / block_bytes), run_->num_blocks() - block_) * block_bytes;
  } else if (offset_ != 0) {
    count = static_cast<std::size_t>(std::min<std::uint64_t>(round_up(bytes), file_bytes() - offset_));
  }
  const Buffer buffer = make_buffer(std::max(count, kPage));
  run_->file().read(buffer.get(), count, offset_);
  if (has_blocks) look_at(buffer.get(), count / block_bytes);
  checksum_ = crc32c(buffer.get(), count, checksum_);
  offset_ += count;
  if (offset_ < file_bytes()) return true;
  if (num_records_ != run_->size()) {
    throw DiskError(run_->file().known_as() + " is damaged: it has " + std::to_string(num_records_) +
                        " records, written were " + std::to_string(run_->size()) + "; begin anew from a checkpoint",
                    0);
  }
  return false;
}

void RunCheck::look_at(const std::byte* blocks, std::size_t count) {
  const Shape& shape = run_->shape();
  for (std::size_t i = 0; i < count; ++i, ++block_) {
    const std::byte* block = blocks + i * shape.block_bytes;
    const std::size_t size = run_->check_block(block, block_);
    const std::byte* record = block + Shape::kBlockHead;
    for (std::size_t j = 0; j < size; ++j, ++num_records_, record += shape.record_bytes) {
      const std::uint64_t hash = mix64(key_of(record));
      if ((num_records_ != 0 && hash <= last_hash_) || !run_->may_hold(hash)) {
        throw DiskError(run_->file().known_as() + " is damaged: block " + std::to_string(block_) +
                            " has a record out of its order; begin anew from a checkpoint",
                        0);
      }
      last_hash_ = hash;
    }
  }
}

}  // namespace fleet::disk
