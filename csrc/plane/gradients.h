// What a push says, as a server reads it. It points into the message; gradients that travel in fewer bytes become
// floats when somebody first wants them, so that a push that comes a second time costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "compress/format.h"
#include "keys/array.h"
#include "plane/message.h"
#include "table/table.h"

namespace fleet::plane {

// Rows that somebody wants: the keys of one table.
struct Wanted {
  std::uint32_t table;
  const std::int64_t* keys;
  std::size_t n;
  Table::Missing missing;
  WireFormat format = WireFormat::kFloat32;  // of the rows in the answer
};

// Floats of a message, in any format. Whoever calls `values` first must be alone; who comes later may share them.
class Floats {
 public:
  // These are false if the bytes are not those of so many values, or lie where they cannot be read in place.
  bool take_rows(const Extent& tensor, WireFormat format, std::size_t n, std::size_t width);
  bool take_vector(const Extent& tensor, WireFormat format, std::size_t size);
  // Values of some places, which ascend; zeros elsewhere.
  bool take_some(const Extent& places, const Extent& tensor, WireFormat format, std::size_t size);

  std::size_t size() const { return size_; }
  // In place, or decoded. std::runtime_error if somebody has changed the message since, so that it is none any more.
  const float* values() const;
  // Of the magnitudes.
  float largest() const;
  // What decoding them takes.
  std::size_t decoded_bytes() const { return values_ == nullptr ? size_ * sizeof(float) : 0; }

 private:
  void decode() const;

  std::size_t size_ = 0;   // of all values
  std::size_t width_ = 0;  // of a row; 0: they are a vector
  WireFormat format_ = WireFormat::kFloat32;
  const std::uint8_t* bytes_ = nullptr;
  const std::int32_t* places_ = nullptr;  // null: all
  std::size_t num_places_ = 0;
  mutable Array<float> own_;
  mutable const float* values_ = nullptr;
  mutable float largest_ = -1;
};

struct Gradients {
  Gradients() = default;
  Gradients(Gradients&&) = default;
  Gradients& operator=(Gradients&&) = default;

  struct Part {
    std::uint32_t table;
    double lr;
    const std::int64_t* keys;
    std::size_t n, width;
    Floats grads;
    const std::uint32_t* counts;  // or null
    const float* shows;           // or null, and so are clicks
    const float* clicks;
    WireFormat row_format;  // of its rows in the answer, if they are wanted
  };
  struct Group {
    std::uint32_t group;
    double lr;
    Floats grads;
  };
  std::vector<Part> parts;
  std::vector<Group> dense;
  std::vector<std::uint32_t> absent;  // parameters that had no part in the loss, ascending
  std::vector<Wanted> pulls;          // rows that it also wants
  std::size_t num_rows = 0;           // of all parts
  bool is_traced = false;
  std::shared_ptr<const void> owner;  // of what it points into; null: somebody else sees to it

  // What is decoded when somebody wants it, and to do so now.
  std::size_t decoded_bytes() const;
  void decode() const;
};

// The items of a tensor; null if it does not hold so many, or lies where they cannot be read in place.
template <class T>
const T* items(const Extent& tensor, std::size_t n) {
  if (tensor.size != n * sizeof(T) || reinterpret_cast<std::uintptr_t>(tensor.data) % alignof(T) != 0) return nullptr;
  return reinterpret_cast<const T*>(tensor.data);
}

// False for a number that is no format.
bool read_format(std::uint32_t number, WireFormat& format);

}  // namespace fleet::plane
