// Rows that a worker keeps for a few steps instead of asking the servers again (docs/adr/0029).
//
// A row is stamped with the step at which it was asked for, and is used while it is at most `staleness` steps old; then
// the servers are asked again, and the row takes its old place. When the cache is full, a row comes in when it is asked
// for a second time, which most never are, and rows that were used least make room: a hand goes round and halves the
// uses of what it passes, and a row without any goes. Where it finds none within a few rows, the new row is not kept.
// Used from one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "keys/array.h"
#include "table/index.h"

namespace fleet {

struct CacheCounts {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;     // keys that were not there
  std::uint64_t refreshed = 0;  // keys that were there, and too old
  std::uint64_t evicted = 0;
  std::uint64_t age_steps = 0;  // of all hits together
  std::uint64_t oldest = 0;     // of any hit
};

class RowCache {
 public:
  // Holds `capacity` rows at most. With a staleness of 0 there are no hits.
  RowCache(std::size_t width, std::size_t capacity, std::uint32_t staleness);

  struct Taken {
    std::vector<std::int64_t> missing;  // positions of the keys that the servers have to be asked for
    std::uint64_t version;              // the least of any hit; the largest number if there was none
  };
  // Writes the rows of keys that may be used at step `now` to their places in out, [n, width].
  Taken take(const std::int64_t* keys, std::size_t n, std::uint32_t now, float* out);
  // Keeps rows [n, width] that were asked for at step `now`, of servers of that version.
  void put(const std::int64_t* keys, std::size_t n, const float* rows, std::uint32_t now, std::uint64_t version);
  void clear();

  std::size_t size() const { return index_.size(); }
  std::size_t width() const { return width_; }
  const CacheCounts& counts() const { return counts_; }

 private:
  static constexpr std::size_t kBlock = 4096;  // rows whose memory comes at once
  static constexpr int kTries = 8;             // rows that the hand passes for one that wants to come in
  static constexpr std::uint8_t kMostUses = 255;

  struct Entry {
    std::int64_t key;
    std::uint64_t version;
    std::uint32_t step;
    std::uint8_t uses;
  };

  float* row(std::uint32_t number) { return blocks_[number / kBlock].data() + number % kBlock * width_; }
  // Whether the key was asked for before, as far as is remembered; from now on it was.
  bool is_known(std::int64_t key);
  // A place for a key that is not there; Index::kNone if nothing makes room.
  std::uint32_t enter(std::int64_t key, std::uint32_t place);
  template <class Work>
  void for_each(const std::int64_t* keys, std::size_t n, Work&& work);

  std::size_t width_, capacity_;
  std::uint32_t staleness_;
  Index index_;
  std::vector<Array<float>> blocks_;
  std::vector<Entry> entries_;
  std::size_t hand_ = 0;
  std::vector<std::uint64_t> known_;  // bits by hash, of keys that have found the cache full
  std::size_t num_known_ = 0;
  CacheCounts counts_;
};

}  // namespace fleet
