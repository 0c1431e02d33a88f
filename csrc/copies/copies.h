// A worker's copies of rows in geo mode: trained here, and exchanged with the servers as differences.
//
// Beside the values and the rule's state a copy has `start`, the values from which the next difference is measured:
// what the servers had when they were last heard of, unless the mark says kAhead. A window is the time between two
// calls of `difference`; the answer to one must be merged before the next. How a difference is divided among workers,
// and what comes of an answer: docs/adr/0027 and 0068.
//
// Used from one thread. Copies are numbered in the order they come, and lie in that order, so what a window has touched
// is mostly read from front to back and without the index. A number stays that of its key until all are cleared: what a
// batch does with its keys finds them once. What every step needs of a copy, values and state, lies at its front; what
// only exchanges need, behind them (docs/adr/0032).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "keys/array.h"
#include "rule/rule.h"
#include "table/index.h"

namespace fleet {

struct CopyOptions {
  std::string name;
  std::size_t width = 0;
  std::unique_ptr<Rule> rule;
  bool has_bounds = false;
  float low = 0;
  float high = 0;
  bool has_max_norm = false;
  double max_norm = 0;
  double norm_type = 2;
  float tolerance = 0;  // by how much, relatively, servers may round what they store
};

// About how many workers have touched a row in a window, of which one has touched it `touches` times: by that its
// difference is divided, or by the root of it under a rule that slows down.
double sharers(std::uint32_t touches, std::uint32_t num_workers);

// The copies of some keys, found once: their numbers, or Index::kNone.
struct Located {
  std::vector<std::uint32_t> numbers;
  std::uint64_t epoch = 0;  // how often copies had been cleared
};

class Copies {
 public:
  explicit Copies(CopyOptions options);

  Located locate(const std::int64_t* keys, std::size_t n) const;
  // The same for keys that may have been located before, and need not have been.
  void locate_again(const std::int64_t* keys, std::size_t n, Located& located) const;
  // Positions of the keys that have no copy, or one that the servers should be asked for again.
  std::vector<std::int64_t> missing(const Located& located) const;
  // out: [n, width], the copies of located keys; zeros where there is none.
  void pull(const Located& located, float* out) const;
  // The same, and first makes copies of `num_fetched` rows that came from servers, for the keys at these ascending
  // positions; not of those that `missing` would not name any more.
  void pull(const std::int64_t* keys, Located& located, const std::int64_t* positions, std::size_t num_fetched,
            const float* fetched, float* out);
  // One update of each copy; keys are distinct. The number of rows left out for a NaN or an Inf, if they may be.
  // std::invalid_argument for a key without a copy.
  std::size_t push(const std::int64_t* keys, const Located& located, const float* grads, double lr,
                   bool skip_nonfinite);

  struct Difference {
    Array<std::int64_t> keys;      // grouped by server, ascending within one
    Array<float> sent;             // [n, width]: to be added on the servers; may be longer
    Array<std::uint32_t> touches;  // likewise
    Array<std::int64_t> offsets;   // where each server's keys begin, and where the last end
  };
  // What the window has changed; the next window begins. Its memory is that of the one before, if nobody holds it.
  std::shared_ptr<Difference> difference(std::uint32_t num_workers, std::uint32_t num_servers);
  // Takes over rows [n, width] that servers have after they added `sent`. `awaited`: which part of the other workers
  // has not been heard of since the window began.
  void merge(const std::int64_t* keys, std::size_t n, const float* sent, const std::uint32_t* touches,
             const float* rows, std::uint32_t num_workers, double awaited);
  // The servers have what was sent. A row that was touched once was sent whole, and nobody asked what came of it: the
  // servers are asked for it when it is next needed, unless it has been touched meanwhile.
  void age();
  void clear();

  std::size_t size() const { return keys_.size(); }
  std::size_t width() const { return options_.width; }
  std::size_t bytes() const;

 private:
  static constexpr std::size_t kBlock = 16384;    // rows whose memory follows each other
  static constexpr std::size_t kMostBlocks = 16;  // whose memory comes at once
  // A mark: touches in this window and, above them, whether the servers should be asked for the row again; whether it
  // came in the window whose outcome will be merged next, so that nobody knows who had changed it before; whether no
  // other worker had changed it when all had been heard of; and whether what the servers had is `start`, and is not
  // written down a second time.
  static constexpr std::uint32_t kOld = 0x80000000u;
  static constexpr std::uint32_t kFresh = 0x40000000u;
  static constexpr std::uint32_t kAlone = 0x20000000u;
  static constexpr std::uint32_t kLevel = 0x10000000u;
  static constexpr std::uint32_t kTouches = kLevel - 1;

  float* row(std::uint32_t number) { return blocks_[number / kBlock] + number % kBlock * row_floats_; }
  const float* row(std::uint32_t number) const { return const_cast<Copies*>(this)->row(number); }
  float* state(float* row) const { return row + options_.width; }
  float* start_of(float* row) const { return row + trained_floats_; }
  // What the servers had of a copy that is not kLevel; the second makes room for it.
  float* heard(std::uint32_t number) {
    return heard_[slots_[number] / kBlock].data() + slots_[number] % kBlock * options_.width;
  }
  float* heard_for(std::uint32_t number);
  // The copy of a key that had none when it was located; made if there is none yet.
  std::uint32_t add(std::int64_t key);
  void make_room();
  bool is_wanted(std::uint32_t number) const { return number == Index::kNone || (marks_[number] & kOld) != 0; }
  // By how much the difference of a copy is divided.
  double parts_of(std::uint32_t number, std::uint32_t touches, std::uint32_t num_workers) const {
    if ((marks_[number] & kAlone) != 0) return 1.0;
    const double parts = sharers(touches, num_workers);
    return options_.rule->slows_down() ? std::sqrt(parts) : parts;
  }
  // Bounds and the largest norm.
  void settle(float* values) const;
  bool is_alone(const float* server, const float* sent, const float* now) const;
  // Asks for the first floats of each copy, and for its mark, some copies before work(i, number) is called for it.
  template <class Work>
  void for_each(const Located& located, std::size_t floats, Work&& work) const;

  CopyOptions options_;
  std::size_t trained_floats_;  // values and state
  std::size_t row_floats_;
  Index index_;
  std::size_t room_ = 0;  // keys that fit the index
  std::uint64_t epoch_ = 0;
  std::vector<Array<float>> memory_;
  std::vector<float*> blocks_;      // in it
  std::vector<std::int64_t> keys_;  // of each copy
  std::vector<std::uint32_t> marks_;
  std::vector<std::uint32_t> slots_;  // of each copy in heard_; Index::kNone: it has never needed one
  std::vector<Array<float>> heard_;
  std::uint32_t num_slots_ = 0;
  std::shared_ptr<Difference> last_;
  std::vector<std::uint32_t> touched_;  // in this window, by number
  std::vector<std::uint32_t> whole_;    // sent whole by the last difference
};

}  // namespace fleet
