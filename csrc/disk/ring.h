// io_uring, as much of it as reads need. Used by one thread.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "disk/reads.h"

namespace fleet::disk {

class Ring {
 public:
  static constexpr unsigned kDepth = 128;  // reads under way

  // Not open where the system has none, or forbids it.
  Ring();
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  // A child of a fork must not use its parent's.
  bool is_of_this_process() const;
  void read(const Read* reads, std::size_t n);

 private:
  struct Part {
    void* data = nullptr;
    std::size_t bytes = 0;
  };

  void close();
  void put(const Read& read, std::size_t number);

  int descriptor_ = -1;
  pid_t process_;
  Part submissions_, completions_, entries_;
  unsigned *sq_tail_ = nullptr, *sq_array_ = nullptr, sq_mask_ = 0;
  unsigned *cq_head_ = nullptr, *cq_tail_ = nullptr, cq_mask_ = 0;
  void* cqes_ = nullptr;
};

}  // namespace fleet::disk
