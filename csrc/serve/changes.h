// The changes of one table since its base: rows by key, and keys that are gone.
//
// Rows lie once in memory and never change there: a change writes a new one. The index that leads to them is there
// twice. Readers use one; the writer changes the other, has readers go over (serve/tables.h), and makes the same change
// in the first. Rows that no index names any more are used again after that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "keys/hash.h"
#include "table/index.h"

namespace fleet::serve {

class Changes {
 public:
  static constexpr std::uint32_t kGone = Index::kNone - 1;

  explicit Changes(std::size_t width) : width_(width) {}

  // What one of two readers' views has.
  struct View {
    Index index;
    std::vector<const float*> blocks;
    std::size_t room = 0;
  };

  const View& view(int side) const { return views_[side]; }
  const float* row(const View& view, std::uint32_t number) const {
    return view.blocks[number / kBlock] + static_cast<std::size_t>(number % kBlock) * width_;
  }

  // One change of many rows, in three steps: rows are written where nobody looks; each view is led to them in turn;
  // rows of before are given back. Keys of `gone` have no row afterwards.
  void write(const std::int64_t* keys, std::size_t n, const float* rows, const std::int64_t* gone,
             std::size_t num_gone);
  void lead(int side);
  void give_back();

  std::size_t width() const { return width_; }
  std::size_t size() const { return views_[0].index.size(); }
  std::size_t bytes() const;

 private:
  static constexpr std::size_t kBlock = 1024;

  std::uint32_t take();

  std::size_t width_;
  View views_[2];
  std::vector<std::unique_ptr<float[]>> blocks_;
  std::uint32_t num_used_ = 0;
  std::vector<std::uint32_t> free_, former_;
  // The present change: the row of each key, or kGone.
  std::vector<std::int64_t> keys_;
  std::vector<std::uint32_t> numbers_;
};

}  // namespace fleet::serve
