// Memory that messages lie in: on the heap, or in a block that two processes of one machine share.
//
// A block belongs to the client, which lends its room to a call: the request lies at its begin, the answer is written
// behind it. Nothing is copied through the kernel; the socket carries heads only.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "plane/message.h"

namespace fleet::plane {

// How many bytes of large messages a server has in memory, whatever way they come: gRPC holds of it, too.
class Budget {
 public:
  explicit Budget(std::size_t most) : most_(most) {}
  // One message always finds room, beside the `own` bytes that its call has already.
  bool hold(std::size_t bytes, std::size_t own = 0);
  void let_go(std::size_t bytes) { held_ -= bytes; }
  std::size_t held() const { return held_; }
  std::size_t most() const { return most_; }

 private:
  std::size_t most_;
  std::atomic<std::size_t> held_{0};
};

// Some bytes, aligned to 64.
class Memory {
 public:
  // On the heap; std::bad_alloc if there is no room.
  static std::shared_ptr<Memory> of(std::size_t size);
  // The same, where `bytes` of a budget are held until it goes or gives them back; null if there is no room for them
  // beside the `own` that its call has already.
  static std::shared_ptr<Memory> counted(std::shared_ptr<Budget> budget, std::size_t size, std::size_t bytes,
                                         std::size_t own);
  // Shared: a new block, of whole pages. std::system_error if the system refuses.
  static std::shared_ptr<Memory> shared(std::size_t size);
  // Shared: what another process made. Takes the file over. Null unless it is of this size and can never shrink.
  static std::shared_ptr<Memory> mapped(int file, std::size_t size);

  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // What it holds of a budget, and to hold nothing any more: others must find room while this waits for them.
  std::size_t held() const { return held_; }
  void give_room_back();
  // The same, where whoever calls this holds it from now on; how much.
  std::size_t hand_room_over() { return held_.exchange(0); }
  // Of a block that this process made, to be sent to the other one, which is whoever calls this's to close; then -1.
  int release_file() { return std::exchange(file_, -1); }

 private:
  Memory(std::byte* data, std::size_t size, int file, bool is_mapped)
      : data_(data), size_(size), file_(file), is_mapped_(is_mapped) {}

  std::byte* data_;
  std::size_t size_;
  int file_;
  bool is_mapped_;
  std::shared_ptr<Budget> budget_;  // of what it holds
  std::atomic<std::size_t> held_{0};
};

}  // namespace fleet::plane
