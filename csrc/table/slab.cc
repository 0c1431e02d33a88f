#include "table/slab.h"

#include <stdexcept>

namespace fleet {

namespace {

// Small enough that the half-filled last block of each shard is no waste, large enough that the blocks are few.
constexpr std::size_t kBlockBytes = std::size_t{128} << 10;
constexpr std::uint32_t kMaxRows = 0xfffffff0u;

}  // namespace

Slab::Slab(Arena& arena, std::size_t row_bytes, bool has_clicks)
    : arena_(arena), row_bytes_(row_bytes), note_bytes_(sizeof(Mark) + (has_clicks ? sizeof(Clicks) : 0)), shift_(0) {
  while ((bytes_each() << (shift_ + 1)) <= kBlockBytes + (kBlockBytes >> 3)) ++shift_;
  mask_ = (std::uint32_t{1} << shift_) - 1;
  notes_at_ = (row_bytes_ << shift_);
  notes_at_ = (notes_at_ + 7) / 8 * 8;
}

std::uint32_t Slab::take() {
  if (!unused_.empty()) {
    const std::uint32_t row = unused_.back();
    unused_.pop_back();
    return row;
  }
  if (next_ == kMaxRows) throw std::length_error("a shard holds 4 billion rows at most");
  if ((next_ >> shift_) == blocks_.size()) blocks_.push_back(arena_.allocate(notes_at_ + (note_bytes_ << shift_)));
  return next_++;
}

}  // namespace fleet
