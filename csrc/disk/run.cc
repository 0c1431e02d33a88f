#include "disk/run.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "checksum/crc32c.h"
#include "disk/head.h"

namespace fleet::disk {

namespace {

constexpr std::size_t kReadAtOnce = std::size_t{512} << 10;

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw DiskError(path + " is damaged: " + what + "; begin anew from a checkpoint", 0);
}

}  // namespace

std::shared_ptr<Run> Run::open(const std::string& path, const Shape& shape, std::uint64_t wanted,
                               const std::string& known_as) {
  return open(File::open(path, known_as), &shape, wanted);
}

std::shared_ptr<Run> Run::open(const std::string& path, std::uint64_t wanted) {
  return open(File::open(path), nullptr, wanted);
}

std::shared_ptr<Run> Run::open(File file, const Shape* given, std::uint64_t wanted) {
  const std::string path = file.known_as();
  struct stat status{};
  if (::fstat(file.descriptor(), &status) != 0) throw failure("cannot be read", path, errno);
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes < kPage) damaged(path, "it ends too early");
  const Buffer page = make_buffer(kPage);
  file.read(page.get(), kPage, 0);
  const Head head = Head::of(page.get());
  const bool is_filled =
      std::any_of(page.get() + sizeof(head), page.get() + kPage, [](std::byte byte) { return byte != std::byte{0}; });
  if (!head.is_whole() || is_filled) damaged(path, "its first page is not what was written");
  if (wanted != 0 && head.id != wanted) {
    throw DiskError(path + " is damaged: it is another file of rows, under this name; begin anew from a checkpoint", 0);
  }
  const std::size_t row_at = Shape(0, head.has_clicks != 0).row_at;
  if (head.record_bytes < row_at) damaged(path, "its records have no room for a row");
  const Shape shape = given != nullptr ? *given : Shape(head.record_bytes - row_at, head.has_clicks != 0);
  if (head.record_bytes != shape.record_bytes || (head.has_clicks != 0) != shape.has_clicks) {
    throw DiskError(path + " has rows of another table; begin anew from a checkpoint", 0);
  }
  if (head.file_bytes != bytes) damaged(path, "it ends too early");
  const std::size_t fence_bytes = round_up(head.num_blocks * 8);
  if (kPage + head.num_blocks * shape.block_bytes + fence_bytes + head.bloom_bytes != bytes) {
    damaged(path, "its parts do not make its size");
  }
  const std::uint64_t at = kPage + head.num_blocks * shape.block_bytes;
  const Buffer fences = make_buffer(std::max(fence_bytes, kPage));
  Buffer bits = make_buffer(head.bloom_bytes);
  file.read(fences.get(), fence_bytes, at);
  file.read(bits.get(), head.bloom_bytes, at + fence_bytes);
  const std::uint32_t sum = crc32c(bits.get(), head.bloom_bytes, crc32c(fences.get(), fence_bytes));
  if (sum != head.index_sum) damaged(path, "its index is not what was written");
  std::shared_ptr<Run> run(new Run(std::move(file), shape));
  run->id_ = head.id;
  run->size_ = head.size;
  run->file_bytes_ = bytes;
  run->oldest_step_ = head.oldest_step;
  run->newest_step_ = head.newest_step;
  run->level_ = head.level;
  run->fences_.resize(head.num_blocks);
  std::memcpy(run->fences_.data(), fences.get(), head.num_blocks * 8);
  run->bloom_ = Bloom(std::move(bits), head.bloom_bytes);
  return run;
}

void Run::sync() const {
  if (is_synced_) return;
  file_.sync();
  is_synced_ = true;
}

std::size_t Run::block_of(std::uint64_t hash) const {
  const auto after = std::upper_bound(fences_.begin(), fences_.end(), hash);
  return after == fences_.begin() ? kNone : static_cast<std::size_t>(after - fences_.begin()) - 1;
}

std::size_t Run::check_block(const std::byte* block, std::size_t number) const {
  std::uint32_t sum, count;
  std::memcpy(&sum, block, 4);
  std::memcpy(&count, block + 4, 4);
  if (crc32c(block + 4, shape_.block_bytes - 4, block_start(id_, number)) != sum || count == 0 ||
      count > shape_.per_block || mix64(key_of(block + Shape::kBlockHead)) != fences_[number]) {
    damaged(file_.known_as(), "block " + std::to_string(number) + " is not what was written");
  }
  return count;
}

const std::byte* Run::find(const std::byte* block, std::int64_t key) const {
  std::uint32_t count;
  std::memcpy(&count, block + 4, 4);
  const std::byte* record = block + Shape::kBlockHead;
  for (std::uint32_t i = 0; i < count; ++i, record += shape_.record_bytes) {
    if (key_of(record) == key) return record;
  }
  return nullptr;
}

std::string name_of(const Run& run) {
  const std::string& path = run.file().path();
  const std::string name = path.substr(path.rfind('/') + 1);
  if (run.id() == 0) return name;
  char id[20];
  std::snprintf(id, sizeof(id), "-%016llx", static_cast<unsigned long long>(run.id()));
  return name.substr(0, name.rfind('.')) + id + name.substr(name.rfind('.'));
}

std::uint64_t id_in(const std::string& name) {
  constexpr std::size_t kDigits = 16;
  const std::size_t end = name.rfind('.');
  if (end == std::string::npos || end <= kDigits || name[end - kDigits - 1] != '-') return 0;
  const std::string digits = name.substr(end - kDigits, kDigits);
  if (digits.find_first_not_of("0123456789abcdef") != std::string::npos) return 0;
  return std::strtoull(digits.c_str(), nullptr, 16);
}

RunReader::RunReader(std::shared_ptr<const Run> run)
    : run_(std::move(run)), num_buffered_(std::max<std::size_t>(1, kReadAtOnce / run_->shape().block_bytes)) {
  num_buffered_ = std::min(num_buffered_, std::max<std::size_t>(1, run_->num_blocks()));
  buffer_ = make_buffer(num_buffered_ * run_->shape().block_bytes);
  read_on();
}

void RunReader::read_on() {
  const std::size_t count = std::min(num_buffered_, run_->num_blocks() - block_);
  record_ = nullptr;
  if (count == 0) return;
  const std::size_t bytes = count * run_->shape().block_bytes;
  run_->file().read(buffer_.get(), bytes, run_->offset_of(block_));
  at_ = buffer_.get();
  end_ = at_ + bytes;
  begin_block();
}

void RunReader::begin_block() {
  left_ = run_->check_block(at_, block_++);
  record_ = at_ + Shape::kBlockHead;
  hash_ = mix64(key_of(record_));
  --left_;  // a block has one at least
}

void RunReader::next() {
  if (left_ != 0) {
    --left_;
    record_ += run_->shape().record_bytes;
    hash_ = mix64(key_of(record_));
    return;
  }
  at_ += run_->shape().block_bytes;
  if (at_ == end_) {
    read_on();
  } else {
    begin_block();
  }
}

}  // namespace fleet::disk
