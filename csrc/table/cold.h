// Rows that lie on a disk because memory has no room for them.
//
// Each shard has its rows in memory, as every table has, and beside them runs: sealed files, ordered by hash, the
// newest first (disk/run.h). A row in memory counts; else the newest run that has the key. Before a request is worked
// off, the rows that it needs are read, many at a time and without a lock, and put into memory. When a shard has too
// many there, those that were seen least and longest ago leave: rows that changed are written as a new run, the others
// forgotten. A thread merges runs when there are many of one kind, or when much in them is out of date.
//
// So values do not depend on where a row is: a table with files gives the same bits as one without.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "disk/run.h"
#include "disk/scan.h"
#include "table/table.h"

namespace fleet {

// What a shard has beside its memory; guarded by the shard's lock.
struct ColdShard {
  // Of a row in memory.
  static constexpr std::uint8_t kChanged = 1;  // it is newer than what the disk has
  static constexpr std::uint8_t kOnDisk = 2;   // some run has the key

  std::uint8_t& flag(std::uint32_t row) {
    if (row >= flags.size()) flags.resize(row + row / 8 + 64);
    return flags[row];
  }

  // A row leaves memory, or is deleted.
  void drop_flag(std::uint32_t row) {
    if ((flag(row) & kOnDisk) != 0) --num_both;
    flags[row] = 0;
  }

  void set_runs(disk::Runs all);

  disk::Runs runs;
  std::vector<std::uint8_t> flags;  // by row
  std::size_t num_cold = 0;         // rows that only the disk has
  std::size_t num_both = 0;         // rows in memory that are kOnDisk
  std::size_t index_bytes = 0;      // of the runs
  std::uint64_t epoch = 0;          // raised when a row leaves memory: a key that was not there may be on the disk now
  std::mutex replacing;             // whoever replaces runs; taken before the shard's lock
};

// What the shards of a table share.
class Tier {
 public:
  // Runs of the same level that are merged; and how many may pile up before pushes wait for that.
  static constexpr std::size_t kFanIn = 8;
  static constexpr std::size_t kMostRuns = 4 * kFanIn;

  // Makes the folder, and removes what a former process has left there. `merge` is called in a thread of its own.
  Tier(const TableOptions& options, const disk::Shape& shape, std::function<void(std::size_t)> merge);
  // Removes the files.
  ~Tier();

  // Gives up what is being merged. To be called before anything that `merge` uses goes.
  void stop();

  // What a shard may have in memory, given what it takes for other things.
  std::size_t hot_bytes(std::size_t taken) const;
  std::string next_path(std::size_t shard);
  // A shard may have something to merge.
  void ask(std::size_t shard);
  // Waits a while for the merging thread if it is far behind.
  void wait_if_behind(std::size_t num_runs);
  bool is_stopping() const { return is_stopping_.load(std::memory_order_relaxed); }

  // Rows could not be written, and stay in memory; and they could again.
  void fail(std::size_t shard, const disk::DiskError& error);
  void recover() { is_failing_ = false; }
  bool is_failing() const { return is_failing_.load(std::memory_order_relaxed); }
  // Of the last failure: the shard, and the error for a caller.
  std::pair<std::size_t, disk::DiskError> failure() const;

  const disk::Shape shape;
  const std::string folder;
  std::atomic<std::uint64_t> reads{0}, brought_rows{0}, spilled_rows{0}, written_rows{0}, merged_rows{0};

 private:
  void work();

  const std::string name_;
  const std::size_t budget_;  // of a shard
  std::function<void(std::size_t)> merge_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> is_stopping_{false}, is_failing_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::uint64_t asked_ = 0;  // bit s: shard s
  std::size_t failing_shard_ = 0;
  std::string failure_;
  int failure_code_ = 0;
  std::thread thread_;
};

// Which runs of a shard to merge, as a range; empty: none.
std::pair<std::size_t, std::size_t> runs_to_merge(const ColdShard& cold);

// Thrown inside a merge that is given up.
struct Stopping {};

}  // namespace fleet
