// Rows on their way from the disk into memory.
#include <algorithm>
#include <cstring>

#include "disk/reads.h"
#include "table/cold.h"
#include "table/group.h"

namespace fleet {

namespace {

// A key that is not in memory, and where to look for it next.
struct Wanted {
  std::int64_t key;
  std::uint64_t hash;
  const disk::Run* run;
  std::size_t block;
  std::uint32_t place;
  std::uint16_t shard;
  std::uint16_t next_run;  // of the shard's

  bool operator<(const Wanted& other) const { return run != other.run ? run < other.run : block < other.block; }
  bool is_beside(const Wanted& other) const { return run == other.run && block == other.block; }
};

// Moves on to the next run that may have the key; false if there is none.
bool look_further(Wanted& wanted, const disk::Runs& runs) {
  while (wanted.next_run < runs.size()) {
    wanted.run = runs[wanted.next_run++].get();
    if (!wanted.run->may_hold(wanted.hash)) continue;
    wanted.block = wanted.run->block_of(wanted.hash);
    if (wanted.block != disk::Run::kNone) return true;
  }
  return false;
}

// How many blocks are read before their rows are looked for.
constexpr std::size_t kBlocksAtOnce = 1024;

}  // namespace

void Table::take_in(Shard& shard, const std::byte* record, std::uint32_t place) const {
  ColdShard& cold = *shard.cold;
  const disk::Shape& shape = tier_->shape;
  const std::uint32_t row = shard.rows.take();
  std::uint8_t& flag = cold.flag(row);
  try {
    shard.index.insert(disk::key_of(record), place, row);
  } catch (...) {
    shard.rows.give_back(row);
    throw;
  }
  std::memcpy(&shard.rows.mark(row), record + 8, sizeof(Mark));
  if (shape.has_clicks) std::memcpy(&shard.rows.clicks(row), record + 16, sizeof(Clicks));
  std::memcpy(shard.rows.row(row), record + shape.row_at, format_.row_bytes());
  flag = ColdShard::kOnDisk;
  --cold.num_cold;
  ++cold.num_both;
}

void Table::bring(const std::int64_t* keys, std::size_t n, std::uint64_t skip_shards, std::uint64_t* epochs) const {
  std::vector<Wanted> wanted, left;
  std::vector<disk::Runs> runs(kShards);  // as they were: merged ones stay readable while somebody has them
  std::vector<std::size_t> missing;
  for_each_group(keys, n, [&](std::size_t s, const Block& block, std::size_t begin, std::size_t end, std::size_t) {
    if ((skip_shards >> s) & 1u) return;
    Shard& shard = *shards_[s];
    missing.clear();
    {
      const std::lock_guard<std::mutex> lock(shard.mutex);
      epochs[s] = shard.cold->epoch;
      if (shard.cold->runs.empty()) return;
      if (shard.index.size() != 0) {
        for (std::size_t i = begin; i < end; ++i) shard.index.prefetch(block.places[i]);
      }
      for (std::size_t i = begin; i < end; ++i) {
        const std::int64_t key = keys[block.order[i]];
        if (shard.index.find(key, block.places[i]) == Index::kNone) missing.push_back(i);
      }
      if (missing.empty()) return;
      runs[s] = shard.cold->runs;
    }
    for (const auto& run : runs[s]) {
      for (const std::size_t i : missing) run->prefetch(mix64(keys[block.order[i]]));
    }
    for (const std::size_t i : missing) {
      const std::int64_t key = keys[block.order[i]];
      Wanted one{key, mix64(key), nullptr, 0, block.places[i], static_cast<std::uint16_t>(s), 0};
      if (look_further(one, runs[s])) wanted.push_back(one);
    }
  });
  const std::size_t block_bytes = tier_->shape.block_bytes;
  const disk::Buffer buffer =
      wanted.empty() ? nullptr : disk::make_buffer(std::min(wanted.size(), kBlocksAtOnce) * block_bytes);
  std::vector<disk::Read> reads;
  std::vector<const std::byte*> blocks;
  while (!wanted.empty()) {
    std::sort(wanted.begin(), wanted.end());
    left.clear();
    for (std::size_t first = 0, last; first < wanted.size(); first = last) {
      reads.clear();
      blocks.clear();
      for (last = first; last < wanted.size(); ++last) {
        if (last == first || !wanted[last].is_beside(wanted[last - 1])) {
          if (reads.size() == kBlocksAtOnce) break;
          const disk::Run& run = *wanted[last].run;
          std::byte* to = buffer.get() + reads.size() * block_bytes;
          reads.push_back({&run.file(), run.offset_of(wanted[last].block), to, block_bytes});
        }
        blocks.push_back(reads.back().to);
      }
      disk::read_many(reads.data(), reads.size());
      tier_->reads += reads.size();
      for (std::size_t i = first, end; i < last; i = end) {  // those of one run
        const disk::Run& run = *wanted[i].run;
        Shard& shard = *shards_[wanted[i].shard];
        std::size_t brought = 0;
        const std::lock_guard<std::mutex> lock(shard.mutex);
        const bool is_valid = shard.cold->epoch == epochs[wanted[i].shard];
        for (end = i; end < last && wanted[end].run == &run; ++end) {
          Wanted& one = wanted[end];
          if (end == i || !one.is_beside(wanted[end - 1])) run.check_block(blocks[end - first], one.block);
          const std::byte* record = run.find(blocks[end - first], one.key);
          if (record == nullptr) {
            if (look_further(one, runs[one.shard])) left.push_back(one);
          } else if (is_valid && shard.index.find(one.key, one.place) == Index::kNone) {
            take_in(shard, record, one.place);
            ++brought;
          }
        }
        tier_->brought_rows += brought;
      }
    }
    wanted.swap(left);
  }
}

void Table::settle(Shard& shard, const Block& block, std::size_t begin, std::size_t end, const std::int64_t* keys,
                   std::uint64_t epoch) const {
  const ColdShard& cold = *shard.cold;
  if (cold.epoch == epoch) return;
  // Rows have left memory since. That is rare, so one read at a time will do.
  disk::Buffer buffer;
  for (std::size_t i = begin; i < end; ++i) {
    const std::int64_t key = keys[block.order[i]];
    if (shard.index.find(key, block.places[i]) != Index::kNone) continue;
    Wanted one{key, mix64(key), nullptr, 0, block.places[i], 0, 0};
    while (look_further(one, cold.runs)) {
      if (buffer == nullptr) buffer = disk::make_buffer(tier_->shape.block_bytes);
      one.run->file().read(buffer.get(), tier_->shape.block_bytes, one.run->offset_of(one.block));
      ++tier_->reads;
      one.run->check_block(buffer.get(), one.block);
      if (const std::byte* record = one.run->find(buffer.get(), key)) {
        take_in(shard, record, one.place);
        ++tier_->brought_rows;
        break;
      }
    }
  }
}

}  // namespace fleet
