// Rows by number, each of the same size, in blocks that never move; a row that is given back is used again.
//
// A block holds its rows one after the other and then their marks: what a table notes about a row (how often and when
// it was seen) but a pull never reads. Kept apart, they do not widen the rows a pull has to fetch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "table/arena.h"

namespace fleet {

// What a table notes about a key. The counters of shows and clicks follow where a table has them.
struct Mark {
  std::uint32_t seen;  // occurrences, until it is full
  std::uint32_t step;  // of the last push
};

struct Clicks {
  float shows;
  float clicks;
};

class Slab {
 public:
  Slab(Arena& arena, std::size_t row_bytes, bool has_clicks);

  // The number of an unused row; its bytes are whatever was there.
  std::uint32_t take();
  void give_back(std::uint32_t row) { unused_.push_back(row); }

  std::byte* row(std::uint32_t number) { return blocks_[number >> shift_] + (number & mask_) * row_bytes_; }
  const std::byte* row(std::uint32_t number) const { return blocks_[number >> shift_] + (number & mask_) * row_bytes_; }
  Mark& mark(std::uint32_t number) { return *reinterpret_cast<Mark*>(note(number)); }
  const Mark& mark(std::uint32_t number) const { return const_cast<Slab*>(this)->mark(number); }
  // Only where there are clicks.
  Clicks& clicks(std::uint32_t number) { return *reinterpret_cast<Clicks*>(note(number) + sizeof(Mark)); }
  const Clicks& clicks(std::uint32_t number) const { return const_cast<Slab*>(this)->clicks(number); }

  // Of one row with its mark.
  std::size_t bytes_each() const { return row_bytes_ + note_bytes_; }
  std::size_t num_used() const { return next_ - unused_.size(); }

 private:
  std::byte* note(std::uint32_t number) {
    return blocks_[number >> shift_] + notes_at_ + (number & mask_) * note_bytes_;
  }

  Arena& arena_;
  std::size_t row_bytes_;
  std::size_t note_bytes_;
  unsigned shift_;
  std::uint32_t mask_;
  std::size_t notes_at_;  // where the marks of a block begin
  std::uint32_t next_ = 0;
  std::vector<std::byte*> blocks_;
  std::vector<std::uint32_t> unused_;
};

}  // namespace fleet
