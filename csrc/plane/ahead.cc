#include "plane/ahead.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace fleet::plane {

bool gaps_of(const std::vector<Part>& parts, std::size_t size, std::vector<Gap>& gaps) {
  std::size_t end = 0;
  for (const Part& one : parts) {
    if (one.size == 0 || one.at < end || one.at > size || one.size > size - one.at) return false;
    if (one.at != end) gaps.push_back({end, one.at - end});
    end = one.at + one.size;
  }
  if (end != size) gaps.push_back({end, size - end});
  return true;
}

void KeptParts::keep(std::uint64_t number, std::shared_ptr<Memory> memory) {
  newest_ = number;
  if (memory != nullptr) parts_.emplace(number, std::move(memory));
}

bool KeptParts::join(const std::vector<Part>& parts, std::byte* message) const {
  for (const Part& one : parts) {
    const auto found = parts_.find(one.number);
    if (found == parts_.end() || found->second->size() != one.size) return false;
    std::memcpy(message + one.at, found->second->data(), one.size);
  }
  return true;
}

std::uint64_t SentParts::add(std::shared_ptr<Memory> memory) {
  static std::atomic<std::uint64_t> newest{0};
  const std::uint64_t number = ++newest;
  next_ = number + 1;
  parts_.emplace(number, std::move(memory));
  return number;
}

SentParts::Found SentParts::find(const std::vector<Claim>& claims) const {
  Found found;
  for (const Claim& one : claims) {
    const auto part = parts_.find(one.number);
    if (part != parts_.end()) found.emplace_back(one, part->second);  // others are of a connection before this one
  }
  return found;
}

std::vector<Part> parts_of(const SentParts::Found& claimed, const std::vector<std::vector<Extent>>& tensors,
                           const Layout& layout) {
  std::vector<Part> parts;
  for (const auto& [claim, memory] : claimed) {
    if (claim.tensor >= tensors.size() || tensors[claim.tensor].size() != 1) continue;
    const Extent& tensor = tensors[claim.tensor][0];
    if (claim.begin > tensor.size || memory->size() > tensor.size - claim.begin) continue;
    if (std::memcmp(tensor.data + claim.begin, memory->data(), memory->size()) != 0) continue;
    parts.push_back({claim.number, layout.begin(claim.tensor) + claim.begin, memory->size()});
  }
  std::sort(parts.begin(), parts.end(), [](const Part& one, const Part& other) { return one.at < other.at; });
  std::vector<Part> apart;
  for (const Part& one : parts) {
    if (apart.empty() || one.at >= apart.back().at + apart.back().size) apart.push_back(one);
  }
  return apart;
}

void copy_gaps(const std::vector<Extent>& tensor, std::size_t begin, const std::vector<Gap>& gaps, std::byte* message) {
  for (const Extent& piece : tensor) {
    const std::size_t end = begin + piece.size;
    auto gap = std::lower_bound(gaps.begin(), gaps.end(), begin,
                                [](const Gap& one, std::size_t at) { return one.begin + one.size <= at; });
    for (; gap != gaps.end() && gap->begin < end; ++gap) {
      const std::size_t from = std::max(begin, gap->begin), to = std::min(end, gap->begin + gap->size);
      if (from < to) std::memcpy(message + from, piece.data + (from - begin), to - from);
    }
    begin = end;
  }
}

}  // namespace fleet::plane
