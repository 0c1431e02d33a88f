#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "checksum/crc32c.h"
#include "disk/head.h"
#include "disk/run.h"

namespace fleet::disk {

namespace {

constexpr std::size_t kWriteAtOnce = std::size_t{1} << 20;
constexpr const char* kUnfinished = ".tmp";

// Any number but 0: no two runs have the same.
std::uint64_t draw_id() {
  std::random_device chance;
  const std::uint64_t id = std::uint64_t{chance()} << 32 | chance();
  return id == 0 ? 1 : id;
}

}  // namespace

RunWriter::RunWriter(std::string path, const Shape& shape, std::size_t most, std::uint32_t level)
    : path_(std::move(path)),
      file_(File::create(path_ + kUnfinished)),
      shape_(shape),
      capacity_(std::max<std::size_t>(1, kWriteAtOnce / shape.block_bytes) * shape.block_bytes),
      level_(level),
      id_(draw_id()),
      bloom_(most) {
  buffer_ = make_buffer(capacity_);
  std::memset(buffer_.get(), 0, capacity_);
  fences_.reserve(most / shape.per_block + 1);
}

RunWriter::~RunWriter() {
  if (!is_finished_) ::unlink(file_.path().c_str());
}

std::byte* RunWriter::add(std::uint64_t hash) {
  if (in_block_ == shape_.per_block) end_block();
  if (in_block_ == 0) fences_.push_back(hash);
  bloom_.add(hash);
  ++size_;
  return buffer_.get() + at_ + Shape::kBlockHead + in_block_++ * shape_.record_bytes;
}

void RunWriter::end_block() {
  std::byte* block = buffer_.get() + at_;
  const auto count = static_cast<std::uint32_t>(in_block_);
  for (std::size_t i = 0; i < in_block_; ++i) {
    const std::uint32_t step = step_of(block + Shape::kBlockHead + i * shape_.record_bytes);
    oldest_step_ = std::min(oldest_step_, step);
    newest_step_ = std::max(newest_step_, step);
  }
  std::memcpy(block + 4, &count, 4);
  const std::uint32_t sum = crc32c(block + 4, shape_.block_bytes - 4, block_start(id_, fences_.size() - 1));
  std::memcpy(block, &sum, 4);
  at_ += shape_.block_bytes;
  in_block_ = 0;
  if (at_ == capacity_) write_out();
}

void RunWriter::write_out() {
  file_.write(buffer_.get(), at_, offset_);
  offset_ += at_;
  at_ = 0;
  std::memset(buffer_.get(), 0, capacity_);  // the end of a block that is not full
}

std::shared_ptr<Run> RunWriter::finish() {
  if (in_block_ != 0) end_block();
  if (at_ != 0) write_out();
  const std::size_t fence_bytes = round_up(fences_.size() * 8);
  const Buffer fences = make_buffer(std::max(fence_bytes, kPage));
  std::memset(fences.get(), 0, std::max(fence_bytes, kPage));
  std::memcpy(fences.get(), fences_.data(), fences_.size() * 8);
  file_.write(fences.get(), fence_bytes, offset_);
  file_.write(bloom_.data(), bloom_.bytes(), offset_ + fence_bytes);
  Head head;
  head.id = id_;
  head.record_bytes = static_cast<std::uint32_t>(shape_.record_bytes);
  head.has_clicks = shape_.has_clicks ? 1 : 0;
  head.level = level_;
  head.size = size_;
  head.num_blocks = fences_.size();
  head.bloom_bytes = bloom_.bytes();
  head.file_bytes = offset_ + fence_bytes + bloom_.bytes();
  head.oldest_step = size_ == 0 ? 0 : oldest_step_;
  head.newest_step = newest_step_;
  head.index_sum = crc32c(bloom_.data(), bloom_.bytes(), crc32c(fences.get(), fence_bytes));
  head.sum = head.own_sum();
  std::memset(fences.get(), 0, kPage);
  std::memcpy(fences.get(), &head, sizeof(head));
  file_.write(fences.get(), kPage, 0);
  File reading = File::open(file_.path());
  if (std::rename(file_.path().c_str(), path_.c_str()) != 0) throw failure("cannot be renamed", file_.path(), errno);
  is_finished_ = true;
  std::shared_ptr<Run> run(new Run(std::move(reading).renamed(path_), shape_));
  run->id_ = id_;
  run->size_ = size_;
  run->file_bytes_ = head.file_bytes;
  run->oldest_step_ = head.oldest_step;
  run->newest_step_ = head.newest_step;
  run->level_ = level_;
  fences_.shrink_to_fit();
  run->fences_ = std::move(fences_);
  run->bloom_ = std::move(bloom_);
  return run;
}

}  // namespace fleet::disk
