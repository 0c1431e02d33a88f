// Working memory that a thread keeps between calls.
#pragma once

#include <cstddef>
#include <type_traits>

namespace fleet {

// Fresh pages cost more than the sort that uses them, and a worker asks for the same sizes every step. A thread keeps
// up to this much of what it used last; the rest goes back at once.
constexpr std::size_t kScratchKeepBytes = std::size_t{48} << 20;

struct Block {
  void* data;
  std::size_t bytes;
};

// At least `bytes` of unfilled memory, aligned for any type; throws std::bad_alloc.
Block take_scratch(std::size_t bytes);

// Gives a block back, on the thread that took it.
void give_scratch(Block block) noexcept;

// How much this thread keeps at the moment.
std::size_t kept_scratch_bytes() noexcept;

// An unfilled array of T for the length of a scope.
template <class T>
class Scratch {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Scratch(std::size_t size) : block_(take_scratch(size * sizeof(T))), size_(size) {}
  ~Scratch() { give_scratch(block_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const { return static_cast<T*>(block_.data); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) const { return data()[i]; }

 private:
  Block block_;
  std::size_t size_;
};

}  // namespace fleet
