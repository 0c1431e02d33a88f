#include "disk/reads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "disk/ring.h"

namespace fleet::disk {

namespace {

constexpr std::size_t kThreads = 16;
constexpr std::size_t kFew = 2;  // not worth a thread

Ring* own_ring() {
  static thread_local std::unique_ptr<Ring> ring;
  if (ring == nullptr || !ring->is_of_this_process()) ring = std::make_unique<Ring>();
  return ring->is_open() ? ring.get() : nullptr;
}

}  // namespace

bool has_ring() { return own_ring() != nullptr; }

void read_many(const Read* reads, std::size_t n) {
  if (n <= kFew) {
    for (std::size_t i = 0; i < n; ++i) reads[i].file->read(reads[i].to, reads[i].bytes, reads[i].offset);
  } else if (Ring* ring = own_ring()) {
    ring->read(reads, n);
  } else {
    read_many_by_threads(reads, n);
  }
}

void read_many_by_threads(const Read* reads, std::size_t n) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failed;
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < n;) {
      try {
        reads[i].file->read(reads[i].to, reads[i].bytes, reads[i].offset);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex);
        failed = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  try {
    while (threads.size() + 1 < std::min(kThreads, n)) threads.emplace_back(work);
  } catch (const std::exception&) {
    // The system has no more threads, or no memory for them: those that are there do it.
  }
  work();
  for (auto& thread : threads) thread.join();
  if (failed) std::rethrow_exception(failed);
}

}  // namespace fleet::disk
