#include "disk/scan.h"

#include <algorithm>
#include <functional>

namespace fleet::disk {

Scan::Scan(const Runs& runs) {
  readers_.reserve(runs.size());
  for (const auto& run : runs) {
    readers_.emplace_back(run);
    if (readers_.back().record() != nullptr) {
      heads_.push_back({readers_.back().hash(), static_cast<std::uint32_t>(readers_.size() - 1)});
    }
  }
  std::sort(heads_.begin(), heads_.end());
}

void Scan::next() {
  const std::uint64_t seen = heads_[0].hash;
  do {
    move_on();
  } while (!heads_.empty() && heads_[0].hash == seen);
}

void Scan::move_on() {
  RunReader& reader = readers_[heads_[0].run];
  reader.next();
  if (reader.record() == nullptr) {
    heads_[0] = heads_.back();
    heads_.pop_back();
  } else {
    heads_[0].hash = reader.hash();
  }
  sink();
}

void Scan::sink() {
  const std::size_t n = heads_.size();
  for (std::size_t at = 0;;) {
    std::size_t least = 2 * at + 1;
    if (least >= n) return;
    if (least + 1 < n && heads_[least + 1] < heads_[least]) ++least;
    if (!(heads_[least] < heads_[at])) return;
    std::swap(heads_[at], heads_[least]);
    at = least;
  }
}

std::size_t total_size(const Runs& runs) {
  std::size_t total = 0;
  for (const auto& run : runs) total += run->size();
  return total;
}

}  // namespace fleet::disk
