// A sparse table: rows by int64 key, in shards with a lock each.
//
// A pull never changes the table: the first value of a row depends on (seed, table, key) alone, so the value of a key
// without a row can be computed. Rows are made, counted and deleted by push, shrink and load.
//
// With `memory_bytes` the rows that are used least lie on a disk (table/cold.h); whoever calls sees no difference but
// time.
//
// Every method may be called from many threads. Requests are worked off in blocks; the keys of a block are grouped by
// shard, and each shard is locked once for its group. Within a group memory is asked for ahead of its use: first all
// buckets of the index, then all rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "init/initializer.h"
#include "rule/rule.h"
#include "table/entry.h"
#include "table/format.h"
#include "table/index.h"
#include "table/slab.h"

namespace fleet {

struct TableOptions {
  std::string name;
  std::size_t width = 0;
  std::unique_ptr<Rule> rule;
  std::unique_ptr<Initializer> initializer;
  Entry entry{"always", {}};
  Dtype dtype = Dtype::kFloat32;
  bool has_bounds = false;  // every value is kept within [low, high]
  float low = 0;
  float high = 0;
  bool has_max_norm = false;  // rows with a larger norm are scaled down to it
  double max_norm = 0;
  double norm_type = 2;       // the p of that norm; infinity: the largest magnitude
  std::size_t max_bytes = 0;  // rows that were pushed least recently go when the table is larger; 0: no ceiling
  std::uint64_t seed = 0;
  std::size_t memory_bytes = 0;  // rows beyond it lie in files; 0: all rows are in memory
  std::string folder;            // where those files are: one that nobody else uses
};

struct Push {
  const std::int64_t* keys;
  std::size_t n;
  const float* grads;           // [n, width]
  const std::uint32_t* counts;  // occurrences of each key, or null: one each
  const float* shows;           // or null: one per occurrence
  const float* clicks;          // or null: none
  std::uint32_t step;
  double lr;
  float scale;                    // multiplies the summed gradients: 1 / workers in synchronous training
  bool skip_nonfinite;            // leave out rows with a NaN or an Inf; otherwise such a push is refused whole
  std::uint64_t skip_shards = 0;  // bit s: shard s already has this push, and stays as it is
};

struct Pushed {
  std::size_t created = 0;  // rows
  std::size_t waiting = 0;  // keys without a row whose gradients were skipped
  std::size_t skipped = 0;  // rows left alone because of a NaN or Inf
  std::size_t evicted = 0;  // rows deleted to stay below the ceiling
};

struct ShrinkRule {
  std::uint32_t now = 0;           // the present step
  std::uint32_t unseen_steps = 0;  // delete what was not pushed for more steps; 0: no such rule
  bool use_score = false;
  double score_below = 0;
  double decay = 0;               // multiplies shows and clicks first; 0: leaves them
  std::uint64_t skip_shards = 0;  // bit s: shard s stays as it is
};

struct Erased {
  std::size_t rows = 0;
  std::size_t waiting = 0;  // keys without a row
};

// A vector whose new elements are not set to zero: they are about to be written.
template <class T>
struct Unset : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = Unset<U>;
  };
  template <class U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  template <class U, class... More>
  void construct(U* at, More&&... more) {
    ::new (static_cast<void*>(at)) U(std::forward<More>(more)...);
  }
};

template <class T>
using Items = std::vector<T, Unset<T>>;

// Rows on their way to or from a file; the vectors of one group have the same length.
struct Marks {
  Items<std::int64_t> keys;
  Items<std::uint32_t> seen, step;
  Items<float> shows, clicks;  // empty unless the table has clicks
};

struct Rows {
  Marks marks;
  Items<std::byte> values;  // as stored
  Items<float> state;
  Marks waiting;                // keys without a row
  Items<std::uint8_t> on_disk;  // of rows that differ from the disk's: whether it has an older version; else empty
};

// The files that hold what a shard has on the disk.
struct ShardFiles {
  std::size_t shard = 0;
  std::size_t num_keys = 0;        // that are in one of them at least
  std::vector<std::string> names;  // the newest first
};

// How much of a table is where.
struct TierCounts {
  std::size_t hot_rows = 0, cold_rows = 0;
  std::uint64_t files = 0, disk_bytes = 0, index_bytes = 0;
  std::uint64_t reads = 0, brought_rows = 0;  // from the disk
  std::uint64_t spilled_rows = 0, written_rows = 0, merged_rows = 0;
};

struct RowsView {
  struct MarksView {
    const std::int64_t* keys;
    std::size_t n;
    const std::uint32_t* seen;
    const std::uint32_t* step;
    const float* shows;
    const float* clicks;
  };
  MarksView marks;
  const std::byte* values;
  const float* state;
  MarksView waiting;
  const std::uint8_t* on_disk = nullptr;  // as Rows has it, for a table whose files were attached
};

class Tier;
struct ColdShard;

class Table {
 public:
  static constexpr std::size_t kShards = 64;
  static constexpr std::size_t kMaxWidth = std::size_t{1} << 24;

  // disk::DiskError if there are to be files and the folder cannot be used.
  explicit Table(TableOptions options);
  ~Table();

  // What a pull gives for a key without a row: its first value, if each key deserves a row, or zeros.
  enum class Missing { kFirst, kZeros };

  // out: [n, width]
  void pull(const std::int64_t* keys, std::size_t n, float* out, Missing missing = Missing::kFirst) const;
  // The pushes of one step: gradients of equal keys are added, in the order of the pushes, and applied once. Step, lr,
  // scale and what to skip are those of the first. std::invalid_argument, and nothing is applied, if one is not finite
  // and may not be skipped. Large ones work on the threads of the shared team, with the same bits.
  Pushed push_all(const Push* pushes, std::size_t count);
  Pushed push(const Push& push) { return push_all(&push, 1); }
  // std::invalid_argument if `push_all` would throw it. Where many are to be pushed or none, they are checked first.
  void check_all(const Push* pushes, std::size_t count) const;
  void check(const Push& push) const { check_all(&push, 1); }
  // found[i] = 1 if keys[i] has a row, else 0
  void find(const std::int64_t* keys, std::size_t n, std::uint8_t* found) const;
  // Gives keys rows of these values [n, width], whatever the entry policy: with a new state and new counters, within
  // bounds and norm, last seen in `step`. Returns how many rows went, to stay below the ceiling.
  std::size_t assign(const std::int64_t* keys, std::size_t n, const float* values, std::uint32_t step = 0,
                     std::uint64_t skip_shards = 0);
  // Rows with all that belongs to them, for a cache that trains them elsewhere: float values and state, then as words
  // how often and when the row was seen, and whether there is one; a key without a row has what it would begin with.
  // Only for tables of float values in memory, without clicks. Large requests work on the threads of the shared team.
  std::size_t record_words() const { return format_.width + format_.state_width + 3; }
  bool has_records() const {
    return format_.dtype == Dtype::kFloat32 && tier_ == nullptr && !options_.entry.has_clicks();
  }
  void read(const std::int64_t* keys, std::size_t n, std::uint32_t* records) const;
  // The way back; records that say there is no row are left out.
  void write(const std::int64_t* keys, std::size_t n, const std::uint32_t* records);
  // Deletes what `rule` says; the number of rows.
  std::size_t shrink(const ShrinkRule& rule);
  // The keys of the rows that it would delete now, in no order.
  std::vector<std::int64_t> doomed(const ShrinkRule& rule) const;
  // Deletes the rows of some keys, what waits for one, and all older versions in files; a key may have none. Who
  // watches is told that any key of its shard may have changed: no trace of it stays. disk::DiskError where files
  // cannot be written anew.
  Erased erase(const std::int64_t* keys, std::size_t n, std::uint64_t skip_shards = 0);
  void clear();

  // A copy of the rows of some shards; each shard is locked while it is copied.
  Rows dump(std::size_t first_shard, std::size_t last_shard) const;
  // The same of tables with rows on a disk, without reading them: gives the files of some shards names in a folder,
  // too, which begin with `prefix`, and copies the rows that differ from what the files have, and all keys that wait.
  Rows seal(std::size_t first_shard, std::size_t last_shard, const std::string& folder, const std::string& prefix,
            std::vector<ShardFiles>& files) const;
  // Takes files for those of a shard that is empty.
  void attach(const ShardFiles& files, const std::string& folder);
  // Restores the rows of such a file, into any table with rows of the same form; those of older files come first.
  std::size_t restore_file(const std::string& path, std::uint32_t server, std::uint32_t num_servers);
  // Takes the keys that belong to `server`; replaces rows that exist. The number of rows taken. Quickest from several
  // threads, with rows of different shards.
  std::size_t restore(const RowsView& rows, std::uint32_t server, std::uint32_t num_servers);

  // Begins to note which keys change or are deleted, for one who asks again and again: who that is. Others do not
  // notice.
  std::size_t watch();
  void unwatch(std::size_t watcher);
  // Adds the keys that were noted for a watcher to `keys`, each once, in no order; `forget`: they are noted no longer.
  // False if the keys are not all: so much has changed that they are not kept, or nobody can say what.
  bool touched(std::size_t watcher, bool forget, std::vector<std::int64_t>& keys);
  // Notes keys for a watcher, as if they had changed; and as if all had.
  void touch(std::size_t watcher, const std::int64_t* keys, std::size_t n);
  void touch_all(std::size_t watcher);
  // The values of those of some keys that have a row, [.., width] in the order of the keys, which are moved to the
  // front; the keys without one go to `gone`. The number of rows. Nothing is made.
  std::size_t values_of(std::int64_t* keys, std::size_t n, float* rows, std::vector<std::int64_t>& gone) const;
  // A copy of the rows and waiting keys among some keys, each once; those that are neither go to `gone`. Only for
  // tables in memory.
  Rows dump_keys(const std::int64_t* keys, std::size_t n, std::vector<std::int64_t>& gone) const;

  // disk::DiskError if rows that memory has no room for cannot be written: a push would be refused.
  void refuse_if_full() const;

  std::size_t size() const;
  std::size_t num_waiting() const;
  // The largest step of any row or waiting key; 0 if there is none.
  std::uint32_t newest_step() const;
  // What rows, marks and keys count for; the system may have handed out a little less.
  std::size_t bytes() const;
  // What all rows would take in memory, wherever they are.
  std::size_t all_bytes() const;
  bool has_disk() const { return tier_ != nullptr; }
  TierCounts tier_counts() const;
  const Format& format() const { return format_; }
  const Entry& entry() const { return options_.entry; }
  const TableOptions& options() const { return options_; }

 private:
  // Numbers of rows, a bit each: a shard's are in the processor's cache, where a set of keys is not.
  class RowBits {
   public:
    // Whether it was not there.
    bool add(std::uint32_t row) {
      const std::size_t word = row / 64;
      if (word >= words_.size()) words_.resize(word + word / 8 + 16);
      const std::uint64_t bit = std::uint64_t{1} << (row % 64);
      const bool is_new = (words_[word] & bit) == 0;
      words_[word] |= bit;
      return is_new;
    }
    // Whether it was there.
    bool remove(std::uint32_t row) {
      const std::size_t word = row / 64;
      if (word >= words_.size()) return false;
      const std::uint64_t bit = std::uint64_t{1} << (row % 64);
      const bool was_there = (words_[word] & bit) != 0;
      words_[word] &= ~bit;
      return was_there;
    }
    void clear() { std::fill(words_.begin(), words_.end(), 0); }

   private:
    std::vector<std::uint64_t> words_;
  };

  // What a shard notes for one watcher: keys in a list, and of those that are in a row, or waiting, that they are in
  // it.
  struct Watch {
    bool is_on = false;
    bool is_all = false;      // everything may have changed: `keys` is empty
    bool may_repeat = false;  // a key may stand twice in the list: it has gone, or its row has moved, in between
    std::vector<std::int64_t> keys;
    RowBits rows, waiting;
  };

  struct Shard {
    Shard(Arena& arena, const Format& format, bool has_clicks);
    ~Shard();

    // Depends on the number of rows and waiting keys alone, not on how they came: a table that was restored reaches
    // its ceiling at the same push as the one that was saved.
    std::size_t bytes() const {
      return Index::count_bytes(index.size()) + rows.num_used() * rows.bytes_each() +
             Index::count_bytes(waiting.size()) + waiting_marks.num_used() * waiting_marks.bytes_each();
    }

    mutable std::mutex mutex;
    Index index;
    Slab rows;
    Index waiting;  // keys that have been seen but have no row
    Slab waiting_marks;
    std::vector<Watch> watches;       // by watcher
    std::unique_ptr<ColdShard> cold;  // null: all rows are in memory
  };

  // The keys of one block, grouped by shard.
  struct Block;

  // So few keys of a request are left to the thread that asks.
  static constexpr std::size_t kWorthAThread = 2048;

  template <class Work>
  void for_each_group(const std::int64_t* keys, std::size_t n, Work&& work) const;
  void pull_part(const std::int64_t* keys, std::size_t n, float* out, Missing missing) const;
  void pull_group(const Shard& shard, const Block& block, std::size_t begin, std::size_t end, const std::int64_t* keys,
                  float* out, Missing missing) const;
  // The rows of a group, on their way into the processor's cache.
  void find_ahead(const Shard& shard, const Block& block, std::size_t begin, std::size_t end, const std::int64_t* keys,
                  std::uint32_t* rows) const;
  void check_numbers(const Push& push) const;
  [[noreturn]] void refuse_sums(const Push& push) const;
  // Each shard by one thread at a time.
  Pushed push_shards(const Push& push);
  void push_and_evict(std::size_t s, const Block& block, std::size_t begin, std::size_t end, const Push& push,
                      std::size_t offset, Pushed& result);
  void push_group(Shard& shard, const Block& block, std::size_t begin, std::size_t end, const Push& push,
                  std::size_t offset, Pushed& result);
  // A row for a key that has none, with whatever was there; and one with its first value.
  std::uint32_t add_row(Shard& shard, std::int64_t key, std::uint32_t place);
  std::uint32_t make_row(Shard& shard, std::int64_t key, std::uint32_t place);
  void restore_group(Shard& shard, const Block& block, std::size_t begin, std::size_t end, const RowsView& rows,
                     const std::size_t* from);
  void restore_waiting(Shard& shard, const Block& block, std::size_t begin, std::size_t end,
                       const RowsView::MarksView& waiting, const std::size_t* from);
  // The row that a push of a key without one may change, or kNone.
  std::uint32_t enter(Shard& shard, std::int64_t key, std::uint32_t place, const Push& push, std::size_t i,
                      Pushed& result);
  void update(std::byte* row, std::int64_t key, const float* grads, const Push& push) const;
  void clamp(float* values) const;
  // Scales values down to the largest norm, if there is one and theirs is larger; a second time changes nothing.
  void limit_norm(float* values) const;
  // The first value of a key, as its row stores it.
  void first_value(std::int64_t key, float* values) const;
  // Deletes rows if the shard is above its part of the ceiling; the number of rows.
  std::size_t evict(Shard& shard) const;
  void note(Slab& slab, std::uint32_t row, const Push& push, std::size_t i) const;
  // Under the lock of the shard: a key changes, which has this row, or waits with this mark, or has just gone from
  // there; or any may have changed.
  static void touch_row(Shard& shard, std::int64_t key, std::uint32_t row) {
    for (Watch& watch : shard.watches) {
      if (watch.is_on && !watch.is_all && watch.rows.add(row)) put_key(shard, watch, key);
    }
  }
  static void touch_waiting(Shard& shard, std::int64_t key, std::uint32_t waiting) {
    for (Watch& watch : shard.watches) {
      if (watch.is_on && !watch.is_all && watch.waiting.add(waiting)) put_key(shard, watch, key);
    }
  }
  static void touch_gone(Shard& shard, std::int64_t key, std::uint32_t row, RowBits Watch::* where);
  static void touch_shard(Shard& shard);
  static void touch_for(Shard& shard, Watch& watch, std::int64_t key, std::uint32_t place);
  static void put_key(Shard& shard, Watch& watch, std::int64_t key);
  static void put_each_once(Watch& watch);
  void remove(Shard& shard, std::int64_t key, std::uint32_t row) const;
  // A key that has a row waits no more.
  void forget(Shard& shard, std::int64_t key, std::uint32_t place) const;
  bool is_done(const ShrinkRule& rule, const Mark& mark, Clicks* clicks) const;

  // Rows on the disk: table/cold*.cc. `epochs` has one for each shard.
  void pull_cold(const std::int64_t* keys, std::size_t n, float* out, Missing missing) const;
  void push_cold(const Push& push, Pushed& result);
  template <class Work>
  void for_each_brought(const std::int64_t* keys, std::size_t n, std::uint64_t skip_shards, Work&& work) const;
  // Brings the rows of the keys of one block into memory; `settle` sees to it, under the lock of a group, that they are
  // still there.
  void bring(const std::int64_t* keys, std::size_t n, std::uint64_t skip_shards, std::uint64_t* epochs) const;
  void settle(Shard& shard, const Block& block, std::size_t begin, std::size_t end, const std::int64_t* keys,
              std::uint64_t epoch) const;
  void take_in(Shard& shard, const std::byte* record, std::uint32_t place) const;
  void note_changed(Shard& shard, const Block& block, std::size_t begin, std::size_t end,
                    const std::int64_t* keys) const;
  // How many rows a shard may have in memory.
  std::size_t most_rows(const Shard& shard) const;
  // Moves rows to the disk if a shard has too many there.
  void spill(std::size_t s, Shard& shard) const;
  void merge(std::size_t s, Shard& shard) const;
  void shrink_cold(std::size_t s, Shard& shard, const ShrinkRule& rule, std::size_t& deleted) const;
  std::size_t erase_cold(std::size_t s, Shard& shard, const std::vector<std::int64_t>& keys) const;
  // Writes the runs of a shard anew, without the records that go, and without what memory has; how many rows went.
  template <class IsGone>
  std::size_t rewrite_cold(std::size_t s, Shard& shard, IsGone&& is_gone) const;
  void doomed_cold(const Shard& shard, const ShrinkRule& rule, std::vector<std::int64_t>& keys) const;
  ShardFiles link_files(std::size_t s, const std::string& folder, const std::string& prefix) const;
  void dump_changed(Rows& out, const Shard& shard) const;
  void dump_cold(Rows& out, const Shard& shard, std::size_t begin) const;
  std::size_t restore_cold(const RowsView& rows, std::uint32_t server, std::uint32_t num_servers);
  std::size_t restore_memory(const RowsView& rows, std::uint32_t server, std::uint32_t num_servers);
  void clear_cold(Shard& shard) const;
  TableOptions options_;
  Format format_;
  std::uint64_t seed_;  // mixed with the table's name
  Arena arena_;
  std::mutex watching_;  // whoever begins or ends a watch; taken before a shard's lock
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unique_ptr<Tier> tier_;  // null: all rows are in memory
};

}  // namespace fleet
