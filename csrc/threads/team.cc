#include "threads/team.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <system_error>

namespace fleet {
namespace {

std::atomic<Team*> shared_team{nullptr};
std::atomic<std::size_t> set_size{0};  // 0: not set

std::size_t default_size() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
    return std::clamp<std::size_t>(static_cast<std::size_t>(CPU_COUNT(&cores)), 1, Team::kMostByDefault);
  }
  // More cores than fit the set.
  return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, Team::kMostByDefault);
}

// Signals are for the threads of the program; those it starts here would not know what to do with one.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// Some tens of microseconds.
constexpr int kPatience = 1000;

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A thread that is awake gets the lock sooner so than by sleeping; who holds it does so for a moment.
void lock_soon(std::unique_lock<std::mutex>& lock) {
  for (int i = 0; i < kPatience; ++i) {
    if (lock.try_lock()) return;
    pause();
  }
  lock.lock();
}

}  // namespace

// One call of parallel_for; lies on the caller's stack.
struct Team::Job {
  explicit Job(const Parts& what, std::size_t places) : parts(what), num_places(places) {}

  const Parts parts;
  std::atomic<std::size_t> next{0};  // part to be done
  // Written under the team's mutex:
  std::size_t num_places;  // threads that may still join
  std::atomic<std::size_t> num_helpers{0};
  std::condition_variable left;  // a helper has
  std::exception_ptr error;
};

Team& Team::shared() {
  Team* team = shared_team.load(std::memory_order_acquire);
  if (team != nullptr) return *team;
  // The child's threads and locks are the parent's at some moment: it leaves that team alone and makes another.
  static const int asked = pthread_atfork(nullptr, nullptr, [] { shared_team.store(nullptr); });
  static_cast<void>(asked);
  auto* fresh = new Team(0);
  if (shared_team.compare_exchange_strong(team, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;  // another thread was quicker
  return *team;
}

std::size_t Team::shared_size() {
  static const std::size_t by_default = default_size();
  const std::size_t size = set_size.load(std::memory_order_relaxed);
  return size != 0 ? size : by_default;
}

void Team::set_shared_size(std::size_t size) { set_size.store(size, std::memory_order_relaxed); }

Team::Team(std::size_t size) : fixed_size_(size) {}

Team::~Team() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
  }
  wanted_.notify_all();
  for (auto& thread : threads_) thread.join();
}

std::size_t Team::size() const { return fixed_size_ != 0 ? fixed_size_ : shared_size(); }

void Team::run(const Parts& parts) {
  const std::size_t num_threads = std::min(size(), parts.num_parts);
  if (num_threads <= 1) {
    for (std::size_t part = 0; part < parts.num_parts; ++part) parts.call(parts.work, part);
    return;
  }
  Job job(parts, num_threads - 1);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    start_threads(job.num_places);
    jobs_.push_back(&job);
    has_jobs_.store(true, std::memory_order_release);
  }
  wanted_.notify_one();  // who comes calls two more: to wake all from here would take longer than much of the work
  work_off(job);
  std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
  lock_soon(lock);
  const auto at = std::find(jobs_.begin(), jobs_.end(), &job);
  if (at != jobs_.end()) jobs_.erase(at);
  has_jobs_.store(!jobs_.empty(), std::memory_order_release);
  if (job.num_helpers != 0) {  // they are at their last parts: sooner done than this thread would sleep and wake
    lock.unlock();
    for (int i = 0; i < kPatience && job.num_helpers.load(std::memory_order_relaxed) != 0; ++i) pause();
    lock.lock();
  }
  job.left.wait(lock, [&job] { return job.num_helpers == 0; });
  if (job.error) std::rethrow_exception(job.error);
}

void Team::work_off(Job& job) {
  const std::size_t num_parts = job.parts.num_parts;
  for (;;) {
    const std::size_t part = job.next.fetch_add(1, std::memory_order_relaxed);
    if (part >= num_parts) return;
    try {
      job.parts.call(job.parts.work, part);
    } catch (...) {
      job.next.store(num_parts, std::memory_order_relaxed);
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!job.error) job.error = std::current_exception();
    }
  }
}

void Team::start_threads(std::size_t count) {
  if (threads_.size() >= count) return;
  const SignalsBlocked blocked;
  try {
    while (threads_.size() < count) threads_.emplace_back([this] { help(); });
  } catch (const std::system_error&) {
    // The system has no more threads: those that are there do it.
  }
}

void Team::rouse(std::chrono::microseconds patience) {
  const std::size_t num_threads = size();
  if (num_threads <= 1) return;
  const auto until = std::chrono::steady_clock::now() + patience;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    start_threads(num_threads - 1);
    awake_until_.store(until.time_since_epoch().count(), std::memory_order_relaxed);
    ++num_roused_;
  }
  wanted_.notify_one();
}

// Wait for a job without sleep, as long as somebody has asked for it. The lock is held before and afterwards.
void Team::look_out(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  while (now() < awake_until_.load(std::memory_order_relaxed)) {
    for (int i = 0; i < 50; ++i) {
      if (has_jobs_.load(std::memory_order_acquire) && lock.try_lock()) {
        if (ends_ || !jobs_.empty()) return;
        lock.unlock();
      }
      pause();
    }
  }
  lock.lock();
}

void Team::help() {
#if defined(__linux__)
  pthread_setname_np(pthread_self(), "fleet-native");
#endif
  std::unique_lock<std::mutex> lock(mutex_);
  std::size_t num_heard = num_roused_;
  for (;;) {
    wanted_.wait(lock, [&] { return ends_ || !jobs_.empty() || num_heard != num_roused_; });
    if (ends_) return;
    if (num_heard != num_roused_) {
      num_heard = num_roused_;
      wanted_.notify_one();  // who comes calls two more
      wanted_.notify_one();
    }
    if (jobs_.empty()) look_out(lock);
    if (jobs_.empty()) continue;
    Job& job = *jobs_.front();
    ++job.num_helpers;
    if (--job.num_places == 0) jobs_.pop_front();
    const bool more = !jobs_.empty();
    has_jobs_.store(more, std::memory_order_release);
    lock.unlock();
    if (more) {
      wanted_.notify_one();
      wanted_.notify_one();
    }
    work_off(job);
    lock_soon(lock);
    // Under the lock: afterwards the job may be gone.
    if (--job.num_helpers == 0) job.left.notify_one();
    if (jobs_.empty() && now() < awake_until_.load(std::memory_order_relaxed)) look_out(lock);
  }
}

}  // namespace fleet
