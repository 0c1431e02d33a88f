#include "bind/arrays.h"
#include "checksum/crc32c.h"

namespace fleet::bind {

namespace {

// Of anything that shows its memory; released when done.
struct Memory {
  explicit Memory(nb::handle object) {
    if (PyObject_CheckBuffer(object.ptr()) == 0) {
      type_error("data must be bytes or another object that shows its memory, got " + text(nb::inst_name(object)));
    }
    if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_SIMPLE) != 0) {
      PyErr_Clear();
      value_error("data must be contiguous; make a copy of it first");
    }
  }
  ~Memory() { PyBuffer_Release(&view); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Py_buffer view{};
};

std::uint32_t crc32c(nb::handle data, nb::handle start) {
  const auto before = static_cast<std::uint32_t>(as_integer(start, "start", 0, 0xffffffffu));
  const Memory memory(data);
  WithoutGil release;
  return fleet::crc32c(memory.view.buf, static_cast<std::size_t>(memory.view.len), before);
}

}  // namespace

void add_checksum(nb::module_& m) {
  m.def("crc32c", &crc32c, nb::arg("data").none(), nb::arg("start").none() = 0,
        "The CRC-32C of bytes that follow bytes whose CRC-32C is `start`.");
}

}  // namespace fleet::bind
