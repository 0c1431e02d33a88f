// The tables of a model as they are served: bases, and the changes since, of one moment for each request.
//
// Lookups may come from any number of threads, wait for nobody, and see either all of a change or nothing of it. One
// change at a time is made: where readers are not, then, when those that still read have ended, where they were.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "serve/base.h"
#include "serve/changes.h"

namespace fleet::serve {

class Tables {
 public:
  // `numbers`: of each shard, the number of the last batch that the bases have.
  Tables(std::vector<std::shared_ptr<const Base>> bases, std::vector<std::int64_t> numbers);

  struct Wanted {
    std::size_t table;
    const std::int64_t* keys;
    std::size_t n;
    float* rows;                        // [n, width]; zeros where a key has no row
    std::vector<std::int64_t> missing;  // the places of those
  };
  // Looks up everything in one moment of the tables; returns the numbers of the batches it has.
  std::vector<std::int64_t> lookup(std::vector<Wanted>& wanted) const;

  struct Changed {
    std::size_t table;
    const std::int64_t* keys;
    std::size_t n;
    const float* rows;
    const std::int64_t* gone;
    std::size_t num_gone;
  };
  // One batch of a shard, whole. After an exception no batch is taken any more; what is served stays as it is.
  void apply(std::size_t shard, std::int64_t number, const std::vector<Changed>& changed);

  std::vector<std::int64_t> numbers() const;
  std::size_t num_tables() const { return bases_.size(); }
  std::size_t num_shards() const { return num_shards_; }
  const Base& base(std::size_t table) const { return *bases_[table]; }
  // Keys that have changed since the base, and what they take of memory.
  std::size_t num_changed(std::size_t table) const;
  std::size_t changed_bytes() const;

 private:
  class Reading;

  void look_up(int side, Wanted& wanted) const;
  void lead(int side, std::size_t shard, std::int64_t number, const std::vector<Changed>& changed);

  std::vector<std::shared_ptr<const Base>> bases_;
  std::vector<Changes> changes_;
  std::size_t num_shards_;
  std::vector<std::int64_t> numbers_[2];
  std::atomic<int> side_{0};
  // How many read each side. Each has a line of memory of its own.
  struct alignas(64) Readers {
    std::atomic<std::int64_t> count{0};
  };
  mutable Readers readers_[2];
  mutable std::mutex writing_;
  bool is_broken_ = false;
};

}  // namespace fleet::serve
