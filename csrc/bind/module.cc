// fleet._native: checks what Python hands over, lets the GIL go, calls the core. The only file that knows Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "keys/hash.h"
#include "keys/merge.h"
#include "keys/split.h"
#include "keys/unique.h"

namespace nb = nanobind;

namespace {

using AnyArray = nb::ndarray<nb::ro>;

std::string text(nb::handle object) { return nb::str(object).c_str(); }

// The dtype, or the class where there is none: bytes are an array, too.
std::string dtype_text(nb::handle object) {
  return text(nb::hasattr(object, "dtype") ? object.attr("dtype") : nb::inst_name(object));
}

[[noreturn]] void type_error(const std::string& message) { throw nb::type_error(message.c_str()); }
[[noreturn]] void value_error(const std::string& message) { throw nb::value_error(message.c_str()); }

// Row-major without gaps; a dimension of one element may have any stride.
bool is_contiguous(const AnyArray& array) {
  if (array.size() == 0) return true;
  std::int64_t expected = 1;
  for (std::size_t d = array.ndim(); d-- > 0;) {
    if (array.shape(d) != 1 && array.stride(d) != expected) return false;
    expected *= static_cast<std::int64_t>(array.shape(d));
  }
  return true;
}

// nanobind would copy and convert where it can and list every overload where it cannot. Keys are never copied, and the
// user gets one line.
AnyArray as_array(nb::handle object, const std::string& name) {
  AnyArray array;
  if (!nb::ndarray_check(object)) {
    type_error(name + " must be a numpy array or a CPU tensor, got " + text(nb::inst_name(object)));
  }
  if (!nb::try_cast(object, array, false)) {  // such as the other byte order, or dates
    type_error(name + " must be a numpy array or a CPU tensor of plain numbers, got one of " + dtype_text(object));
  }
  if (array.device_type() != nb::device::cpu::value) {
    value_error(name + " must lie in CPU memory; call .cpu() on it first");
  }
  if (!is_contiguous(array)) value_error(name + " must be contiguous; make a copy with .contiguous() or .copy() first");
  return array;
}

AnyArray as_int64(nb::handle object, const std::string& name) {
  AnyArray array = as_array(object, name);
  if (array.dtype() != nb::dtype<std::int64_t>()) {
    type_error(name + " must be int64, got " + dtype_text(object));
  }
  if (array.ndim() != 1) value_error(name + " must have 1 dimension, got " + std::to_string(array.ndim()));
  return array;
}

const std::int64_t* int64s(const AnyArray& array) { return static_cast<const std::int64_t*>(array.data()); }

template <class T>
nb::capsule own(fleet::Array<T>& array) {
  nb::capsule owner(array.data(), [](void* data) noexcept { delete[] static_cast<T*>(data); });
  array.release();
  return owner;
}

// A numpy array that owns the memory; nothing is copied.
nb::object to_numpy(fleet::Array<std::int64_t> array) {
  std::int64_t* data = array.data();
  const nb::capsule owner = own(array);
  return nb::cast(nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>(data, {array.size()}, owner));
}

std::uint32_t checked_servers(nb::handle num_servers) {
  const nb::object number = nb::steal(PyNumber_Index(num_servers.ptr()));
  if (!number.is_valid()) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) nb::raise_python_error();
    PyErr_Clear();
    type_error("num_servers must be an integer, got " + text(nb::inst_name(num_servers)));
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0 || value < 1 || value > fleet::kMaxServers) {
    value_error("num_servers must be in 1.." + std::to_string(fleet::kMaxServers) + ", got " + text(number));
  }
  return static_cast<std::uint32_t>(value);
}

nb::tuple unique(nb::handle keys) {
  const AnyArray array = as_int64(keys, "keys");
  if (array.size() > fleet::kMaxUnique) value_error("keys has more than 2^32 - 2 entries; split the batch");
  fleet::Unique result;
  {
    nb::gil_scoped_release release;
    result = fleet::unique(int64s(array), array.size());
  }
  return nb::make_tuple(to_numpy(std::move(result.keys)), to_numpy(std::move(result.inverse)));
}

nb::tuple split(nb::handle keys, nb::handle num_servers) {
  const AnyArray array = as_int64(keys, "keys");
  const std::uint32_t servers = checked_servers(num_servers);
  fleet::Split result;
  {
    nb::gil_scoped_release release;
    result = fleet::split(int64s(array), array.size(), servers);
  }
  return nb::make_tuple(to_numpy(std::move(result.grouped)), to_numpy(std::move(result.order)),
                        to_numpy(std::move(result.offsets)));
}

nb::object server_of(nb::handle keys, nb::handle num_servers) {
  const AnyArray array = as_int64(keys, "keys");
  const std::uint32_t servers = checked_servers(num_servers);
  fleet::Array<std::int64_t> result;
  {
    nb::gil_scoped_release release;
    result = fleet::Array<std::int64_t>(array.size());
    fleet::servers_of(int64s(array), array.size(), servers, result.data());
  }
  return to_numpy(std::move(result));
}

nb::object merge(nb::handle pieces, nb::handle order) {
  if (!nb::isinstance<nb::sequence>(pieces)) {
    type_error("pieces must be a sequence of arrays, got " + text(nb::inst_name(pieces)));
  }
  const AnyArray order_array = as_int64(order, "order");
  std::vector<AnyArray> arrays;  // keeps the rows alive while the GIL is away
  std::vector<fleet::Piece> rows;
  std::size_t total = 0;
  for (nb::handle piece : pieces) {
    const std::string name = "pieces[" + std::to_string(arrays.size()) + "]";
    AnyArray array = as_array(piece, name);
    if (array.ndim() != 1 && array.ndim() != 2) {
      value_error(name + " must have 1 or 2 dimensions, got " + std::to_string(array.ndim()));
    }
    if (!arrays.empty()) {
      const AnyArray& first = arrays.front();
      if (array.dtype() != first.dtype()) type_error(name + " and pieces[0] differ in dtype");
      if (array.ndim() != first.ndim() || (array.ndim() == 2 && array.shape(1) != first.shape(1))) {
        value_error(name + " and pieces[0] differ in width");
      }
    }
    total += array.shape(0);
    rows.push_back({array.data(), array.shape(0)});
    arrays.push_back(std::move(array));
  }
  if (arrays.empty()) value_error("pieces must hold at least one array: it gives the dtype and the width");
  if (total != order_array.size()) {
    value_error("pieces hold " + std::to_string(total) + " rows, but order has " + std::to_string(order_array.size()) +
                " entries");
  }

  const AnyArray& first = arrays.front();
  const std::size_t width = first.ndim() == 2 ? first.shape(1) : 1;
  const std::size_t row_bytes = width * first.itemsize();
  fleet::Array<std::byte> out;
  bool complete = false;
  {
    nb::gil_scoped_release release;
    out = fleet::Array<std::byte>(total * row_bytes);
    complete = fleet::merge(rows.data(), rows.size(), row_bytes, int64s(order_array), out.data());
  }
  if (!complete) value_error("order must name each of 0.." + std::to_string(total - 1) + " once");
  std::byte* data = out.data();
  const std::size_t shape[] = {total, width};
  return nb::cast(nb::ndarray<nb::numpy>(data, first.ndim(), shape, own(out), nullptr, first.dtype()));
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "The C++ core of Fleet. Works on plain buffers with the GIL released; see _native.pyi.";
  m.def("unique", &unique, nb::arg("keys").none(), "Sorted distinct keys, and the position of each key among them.");
  m.def("split", &split, nb::arg("keys").none(), nb::arg("num_servers").none(),
        "Keys grouped by server: (grouped, order, offsets).");
  m.def("server_of", &server_of, nb::arg("keys").none(), nb::arg("num_servers").none(),
        "The server that holds each key.");
  m.def("merge", &merge, nb::arg("pieces").none(), nb::arg("order").none(),
        "Rows of all servers, in the order of the keys.");
}
