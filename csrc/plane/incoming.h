// A message on its way in: the memory that it will lie in, and which bytes of it are still to come.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "plane/frame.h"
#include "plane/memory.h"

namespace fleet::plane {

// Some bytes of a message.
struct Gap {
  std::size_t begin = 0;
  std::size_t size = 0;
};

// What is left of a message of `size` bytes without some parts; false if they overlap, do not ascend or do not fit.
bool gaps_of(const std::vector<Part>& parts, std::size_t size, std::vector<Gap>& gaps);

class Incoming {
 public:
  // Null memory: what comes is counted and dropped.
  void begin(std::shared_ptr<Memory> memory, std::vector<Gap> gaps) {
    memory_ = std::move(memory);
    gaps_ = std::move(gaps);
    gap_ = filled_ = 0;
  }
  bool is_dropped() const { return memory_ == nullptr; }
  bool is_complete() const { return gap_ == gaps_.size(); }
  // Of those that lie together: how many bytes come next, and where to.
  std::size_t room() const { return is_complete() ? 0 : gaps_[gap_].size - filled_; }
  std::byte* to() const { return memory_->data() + gaps_[gap_].begin + filled_; }
  // So many have come.
  void advance(std::size_t bytes) {
    filled_ += bytes;
    if (filled_ < gaps_[gap_].size) return;
    ++gap_;
    filled_ = 0;
  }
  std::shared_ptr<Memory> release() { return std::exchange(memory_, nullptr); }

 private:
  std::shared_ptr<Memory> memory_;
  std::vector<Gap> gaps_;  // none of them empty
  std::size_t gap_ = 0, filled_ = 0;
};

}  // namespace fleet::plane
