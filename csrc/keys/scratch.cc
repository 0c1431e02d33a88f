#include "keys/scratch.h"

#include <array>
#include <cstdlib>
#include <new>

namespace fleet {
namespace {

// No call holds more blocks than this at once.
constexpr std::size_t kMaxBlocks = 24;

class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    while (count_ > 0) std::free(remove(0).data);
  }

  // The smallest block that fits.
  Block take(std::size_t bytes) {
    std::size_t best = count_;
    for (std::size_t i = 0; i < count_; ++i) {
      if (blocks_[i].bytes >= bytes && (best == count_ || blocks_[i].bytes < blocks_[best].bytes)) best = i;
    }
    if (best < count_) return remove(best);
    void* data = std::malloc(bytes > 0 ? bytes : 1);
    if (data == nullptr) throw std::bad_alloc();
    return {data, bytes};
  }

  void give(Block block) noexcept {
    if (block.bytes > kScratchKeepBytes) return std::free(block.data);
    while (count_ == kMaxBlocks || kept_bytes_ + block.bytes > kScratchKeepBytes) std::free(remove(0).data);
    blocks_[count_++] = block;
    kept_bytes_ += block.bytes;
  }

  std::size_t kept_bytes() const noexcept { return kept_bytes_; }

 private:
  Block remove(std::size_t i) noexcept {
    const Block block = blocks_[i];
    for (--count_; i < count_; ++i) blocks_[i] = blocks_[i + 1];
    kept_bytes_ -= block.bytes;
    return block;
  }

  std::array<Block, kMaxBlocks> blocks_{};  // the longest unused first
  std::size_t count_ = 0;
  std::size_t kept_bytes_ = 0;
};

Pool& pool() {
  thread_local Pool pool;
  return pool;
}

}  // namespace

Block take_scratch(std::size_t bytes) { return pool().take(bytes); }

void give_scratch(Block block) noexcept { pool().give(block); }

std::size_t kept_scratch_bytes() noexcept { return pool().kept_bytes(); }

}  // namespace fleet
