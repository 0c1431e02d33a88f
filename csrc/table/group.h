// The keys of a block of a request, grouped by shard.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "table/table.h"

namespace fleet {

struct Table::Block {
  // The rows of a block fit the second-level cache together with their gradients.
  static constexpr std::size_t kSize = 8192;

  std::uint16_t order[kSize];   // positions in the block, those of one shard next to each other
  std::uint32_t places[kSize];  // of order's keys in the index
  std::size_t begins[kShards + 1];

  void fill(const std::int64_t* keys, std::size_t n) {
    std::uint64_t hashes[kSize];
    std::size_t ends[kShards] = {};
    for (std::size_t i = 0; i < n; ++i) {
      hashes[i] = mix64(keys[i]);
      ++ends[hashes[i] % kShards];
    }
    std::size_t begin = 0;
    for (std::size_t s = 0; s < kShards; ++s) {
      begins[s] = begin;
      begin += ends[s];
      ends[s] = begins[s];
    }
    begins[kShards] = begin;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t at = ends[hashes[i] % kShards]++;
      order[at] = static_cast<std::uint16_t>(i);
      places[at] = Index::place(hashes[i]);
    }
  }
};

// work(shard number, block, begin, end, offset of the block). Threads begin at different shards, so that they do not
// queue behind each other.
template <class Work>
void Table::for_each_group(const std::int64_t* keys, std::size_t n, Work&& work) const {
  static std::atomic<std::size_t> next_start{0};
  static thread_local const std::size_t start = next_start.fetch_add(29, std::memory_order_relaxed);
  static thread_local Block block;
  for (std::size_t offset = 0; offset < n; offset += Block::kSize) {
    block.fill(keys + offset, std::min(Block::kSize, n - offset));
    for (std::size_t i = 0; i < kShards; ++i) {
      const std::size_t s = (start + i) % kShards;
      if (block.begins[s] != block.begins[s + 1]) work(s, block, block.begins[s], block.begins[s + 1], offset);
    }
  }
}

}  // namespace fleet
