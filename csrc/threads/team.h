// A few threads that share the parts of one call's work.
//
// The caller takes part, so a team of one has no thread, and a call returns even if no thread could be started. Calls
// from several threads, and from within a part, may overlap: threads help whoever came first. The shared team works in
// a forked child, too: threads do not survive a fork, and the child starts its own when it needs them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace fleet {

class Team {
 public:
  // Never joined: it lives as long as the process. Others are joined when they go.
  static Team& shared();

  // How many threads the shared team has, the caller among them: what was set, or the cores that this process may use,
  // at most kMostByDefault. Requires 1 <= size <= kMost.
  static std::size_t shared_size();
  static void set_shared_size(std::size_t size);
  static constexpr std::size_t kMost = 256;
  static constexpr std::size_t kMostByDefault = 8;

  // Threads are started when they are first needed.
  explicit Team(std::size_t size);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  std::size_t size() const;

  // Have sleeping threads wake up, and wait for work without sleep until so much time is over: for who knows that work
  // comes soon, and for whom a thread that must be woken first would come too late. Returns at once.
  void rouse(std::chrono::microseconds patience);

  // work(part) for each part in 0..num_parts - 1, in any order and on any thread of the team; returns when all are
  // done. If one throws, parts that have not begun are left out, and the first exception is thrown here.
  template <class Work>
  void parallel_for(std::size_t num_parts, const Work& work) {
    const auto call = [](const void* what, std::size_t part) { (*static_cast<const Work*>(what))(part); };
    run({call, &work, num_parts});
  }

 private:
  struct Parts {
    void (*call)(const void* work, std::size_t part);
    const void* work;
    std::size_t num_parts;
  };
  struct Job;

  void run(const Parts& parts);
  void work_off(Job& job);
  void start_threads(std::size_t count);
  void help();
  void look_out(std::unique_lock<std::mutex>& lock);

  const std::size_t fixed_size_;  // 0: the shared one's
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::deque<Job*> jobs_;  // that more threads may join
  std::atomic<bool> has_jobs_{false};
  std::size_t num_roused_ = 0;                // how often `rouse` was called
  std::atomic<std::int64_t> awake_until_{0};  // by the steady clock, in its ticks
  std::vector<std::thread> threads_;
  bool ends_ = false;
};

// Some of many things that follow each other.
struct Slice {
  std::size_t begin;
  std::size_t end;
};

// The part'th of num_parts slices of about the same size that n things make.
inline Slice slice_of(std::size_t n, std::size_t num_parts, std::size_t part) {
  const std::size_t each = n / num_parts, more = n % num_parts;
  const std::size_t begin = each * part + (part < more ? part : more);
  return {begin, begin + each + (part < more ? 1 : 0)};
}

// How many parts to make of n things on the shared team, if fewer than `least` of them are not worth a thread.
inline std::size_t parts_for(std::size_t n, std::size_t least) {
  const std::size_t most = n / least, size = Team::shared_size();
  return most < 2 || size < 2 ? 1 : (most < size ? most : size);
}

// The same cut finer, where there is work for two at all: threads wake one after the other, and what one that comes
// late would have done is done by those that were there.
inline std::size_t fine_parts_for(std::size_t n, std::size_t least) {
  const std::size_t num_parts = parts_for(n, least);
  return num_parts < 2 ? 1 : 4 * num_parts;
}

}  // namespace fleet
