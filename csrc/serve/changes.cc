#include "serve/changes.h"

#include <algorithm>
#include <stdexcept>

namespace fleet::serve {

std::uint32_t Changes::take() {
  if (!free_.empty()) {
    const std::uint32_t number = free_.back();
    free_.pop_back();
    return number;
  }
  if (num_used_ == kGone) throw std::length_error("a table has 2^32 changes; publish a new base");
  if (num_used_ / kBlock == blocks_.size()) blocks_.emplace_back(new float[kBlock * width_]);
  return num_used_++;
}

void Changes::write(const std::int64_t* keys, std::size_t n, const float* rows, const std::int64_t* gone,
                    std::size_t num_gone) {
  keys_.assign(keys, keys + n);
  keys_.insert(keys_.end(), gone, gone + num_gone);
  numbers_.resize(n);
  former_.reserve(n + num_gone);
  free_.reserve(free_.size() + n + num_gone);
  for (std::size_t i = 0; i < n; ++i) {
    numbers_[i] = take();
    std::copy_n(rows + i * width_, width_, blocks_[numbers_[i] / kBlock].get() + numbers_[i] % kBlock * width_);
  }
  numbers_.resize(n + num_gone, kGone);
}

void Changes::lead(int side) {
  View& view = views_[side];
  for (std::size_t i = view.blocks.size(); i < blocks_.size(); ++i) view.blocks.push_back(blocks_[i].get());
  if (view.index.size() + keys_.size() > view.room) {  // an index that grows by itself does so in small steps
    view.room = std::max<std::size_t>(1024, 2 * (view.index.size() + keys_.size()));
    view.index.reserve(view.room);
  }
  constexpr std::size_t kAhead = 16;
  const bool is_first = former_.empty();
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (i + kAhead < keys_.size()) view.index.prefetch(Index::place(mix64(keys_[i + kAhead])));
    const std::uint32_t place = Index::place(mix64(keys_[i]));
    const std::uint32_t before = view.index.replace(keys_[i], place, numbers_[i]);
    if (before == Index::kNone) {
      view.index.insert(keys_[i], place, numbers_[i]);
    } else if (is_first && before != kGone) {
      former_.push_back(before);
    }
  }
}

void Changes::give_back() {
  free_.insert(free_.end(), former_.begin(), former_.end());
  former_.clear();
  keys_.clear();
  numbers_.clear();
}

std::size_t Changes::bytes() const {
  return blocks_.size() * kBlock * width_ * sizeof(float) + views_[0].index.bytes() + views_[1].index.bytes() +
         free_.capacity() * sizeof(std::uint32_t);
}

}  // namespace fleet::serve
