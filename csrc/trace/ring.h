// Spans of the native core, while a trace is recorded: which work, from when to when, on which thread.
//
// A thread writes to a ring of its own without a lock, and one reader takes what has come. A span for which there is no
// room is lost and counted; nobody waits. While no trace is recorded, a span costs a look at one flag.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace fleet::trace {

enum class What : std::uint32_t {
  kRequest,  // from the arrival of a request to its answer: method, worker, incarnation, sequence, begin and end of its
             // wait for the step, or 0
  kAnswer,   // the answer is put together
  kTablePull,  // rows are read: table, rows
  kTablePush,  // gradients are applied to rows: table, rows
  kDense,      // gradients are applied to dense parameters: groups
};
constexpr const char* kNames[] = {"request", "answer", "table pull", "table push", "dense"};

struct Span {
  What what = What::kRequest;
  std::uint32_t thread = 0;  // of Linux
  std::int64_t begin_ns = 0, end_ns = 0;
  std::array<std::uint64_t, 6> about{};
};

extern std::atomic<bool> is_on_;
// Whether a trace is recorded in this process.
inline bool is_on() { return is_on_.load(std::memory_order_relaxed); }
inline void switch_on(bool on) { is_on_.store(on, std::memory_order_relaxed); }

// Of CLOCK_MONOTONIC, which the processes of a machine share.
std::int64_t now_ns();
// Keeps a span of this thread.
void add(What what, std::int64_t begin_ns, std::int64_t end_ns, const std::array<std::uint64_t, 6>& about);
// The spans since the last call. One caller at a time.
std::vector<Span> take();
// How many spans found no room so far.
std::uint64_t num_lost();

// What this thread does now belongs to a request that is traced.
class Here {
 public:
  explicit Here(bool is_traced);
  ~Here();
  Here(const Here&) = delete;
  Here& operator=(const Here&) = delete;
  static bool is_traced();

 private:
  bool before_;
};

// The span of a block, where it belongs to a request that is traced.
class Scope {
 public:
  explicit Scope(What what, std::uint64_t first = 0, std::uint64_t second = 0)
      : what_(what), about_{first, second}, begin_ns_(is_on() && Here::is_traced() ? now_ns() : 0) {}
  ~Scope() {
    if (begin_ns_ != 0) add(what_, begin_ns_, now_ns(), about_);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  What what_;
  std::array<std::uint64_t, 6> about_;
  std::int64_t begin_ns_;
};

}  // namespace fleet::trace
