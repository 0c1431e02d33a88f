#include "trace/ring.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <new>

namespace fleet::trace {

std::atomic<bool> is_on_{false};

namespace {

constexpr std::uint64_t kRoom = 8192;  // spans of one thread between two readings

// One thread writes, one reader takes. It is never freed: when its thread ends, another may have it.
struct Ring {
  std::atomic<std::uint64_t> written{0}, taken{0};
  std::atomic<bool> is_owned{true};
  Ring* next = nullptr;
  std::array<Span, kRoom> spans;
};

std::atomic<Ring*> rings{nullptr};
std::atomic<std::uint64_t> lost{0};
thread_local bool is_traced_here = false;

Ring* claim() {
  for (Ring* one = rings.load(std::memory_order_acquire); one != nullptr; one = one->next) {
    bool is_owned = false;
    if (one->is_owned.compare_exchange_strong(is_owned, true, std::memory_order_acq_rel)) return one;
  }
  Ring* made = new (std::nothrow) Ring;
  if (made == nullptr) return nullptr;
  made->next = rings.load(std::memory_order_relaxed);
  while (!rings.compare_exchange_weak(made->next, made, std::memory_order_release, std::memory_order_relaxed)) {
  }
  return made;
}

// That of a thread, from its first span to its end.
struct Own {
  Ring* ring = claim();
  std::uint32_t thread = static_cast<std::uint32_t>(syscall(SYS_gettid));
  ~Own() {
    if (ring != nullptr) ring->is_owned.store(false, std::memory_order_release);
  }
};

}  // namespace

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void add(What what, std::int64_t begin_ns, std::int64_t end_ns, const std::array<std::uint64_t, 6>& about) {
  thread_local const Own own;
  Ring* ring = own.ring;
  if (ring == nullptr) {
    ++lost;
    return;
  }
  const std::uint64_t at = ring->written.load(std::memory_order_relaxed);
  if (at - ring->taken.load(std::memory_order_acquire) >= kRoom) {
    ++lost;
    return;
  }
  ring->spans[at % kRoom] = {what, own.thread, begin_ns, end_ns, about};
  ring->written.store(at + 1, std::memory_order_release);
}

std::vector<Span> take() {
  std::vector<Span> found;
  for (Ring* one = rings.load(std::memory_order_acquire); one != nullptr; one = one->next) {
    const std::uint64_t end = one->written.load(std::memory_order_acquire);
    std::uint64_t at = one->taken.load(std::memory_order_relaxed);
    for (; at != end; ++at) found.push_back(one->spans[at % kRoom]);
    one->taken.store(at, std::memory_order_release);
  }
  return found;
}

std::uint64_t num_lost() { return lost; }

Here::Here(bool is_traced) : before_(is_traced_here) { is_traced_here = is_traced; }
Here::~Here() { is_traced_here = before_; }
bool Here::is_traced() { return is_traced_here; }

}  // namespace fleet::trace
