// An owned block of trivially copyable values that is not filled on allocation.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

namespace fleet {

// Ask the system for large pages where there are some: a result of many megabytes is otherwise mostly page faults.
void advise_large_pages(void* data, std::size_t bytes) noexcept;

// std::vector would write zeros that the caller overwrites at once; on a million keys that costs a pass over memory.
template <class T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Array() = default;
  explicit Array(std::size_t size) : data_(new T[size]), size_(size) {
    advise_large_pages(data_.get(), size * sizeof(T));
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }

  // Gives the block away; the new owner calls delete[].
  T* release() { return data_.release(); }

 private:
  std::unique_ptr<T[]> data_;
  std::size_t size_ = 0;
};

}  // namespace fleet
