// Buffers of Python objects as the core sees them: held, not copied, as long as this lives.
#pragma once

#include <memory>
#include <vector>

#include "bind/arrays.h"
#include "plane/memory.h"

namespace fleet::bind {

// Made, used and ended with the GIL.
class Buffers {
 public:
  Buffers() = default;
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  ~Buffers() {
    for (Py_buffer& one : held_) PyBuffer_Release(&one);
  }

  plane::Extent of(nb::handle object) {
    Py_buffer view;
    if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_SIMPLE) != 0) throw nb::python_error();
    held_.push_back(view);
    return {static_cast<const std::byte*>(view.buf), static_cast<std::size_t>(view.len)};
  }
  // The same where numbers can be read in place: a copy of those that a foreign client has not aligned.
  plane::Extent aligned(nb::handle object);

 private:
  std::vector<Py_buffer> held_;
  std::vector<std::shared_ptr<plane::Memory>> copies_;
};

}  // namespace fleet::bind
