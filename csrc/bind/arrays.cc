#include "bind/arrays.h"

#include <cmath>

namespace fleet::bind {

namespace {

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

// "[3, 4]"
template <class Sizes>
std::string shape_text(std::size_t n, const Sizes& size) {
  std::string out = "[";
  for (std::size_t d = 0; d < n; ++d) out += (d == 0 ? "" : ", ") + std::to_string(size(d));
  return out + "]";
}

template <class T>
constexpr const char* kTypeName = "";
template <>
constexpr const char* kTypeName<float> = "float32";
template <>
constexpr const char* kTypeName<std::uint32_t> = "uint32";
template <>
constexpr const char* kTypeName<std::int64_t> = "int64";
template <>
constexpr const char* kTypeName<std::int32_t> = "int32";
template <>
constexpr const char* kTypeName<std::uint16_t> = "uint16";

}  // namespace

std::string text(nb::handle object) { return nb::str(object).c_str(); }

std::string dtype_text(nb::handle object) {
  return text(nb::hasattr(object, "dtype") ? object.attr("dtype") : nb::inst_name(object));
}

void type_error(const std::string& message) { throw nb::type_error(message.c_str()); }
void value_error(const std::string& message) { throw nb::value_error(message.c_str()); }

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

AnyArray as_floats(nb::handle object, const std::string& name, std::size_t size) {
  AnyArray array = as_array(object, name);
  if (array.dtype() != nb::dtype<float>()) type_error(name + " must be float32, got " + dtype_text(object));
  if (array.ndim() != 1) value_error(name + " must have 1 dimension, got " + std::to_string(array.ndim()));
  if (array.size() != size) {
    value_error(name + " must have " + std::to_string(size) + " elements, got " + std::to_string(array.size()));
  }
  return array;
}

void* writable(nb::handle object, const std::string& name, const AnyArray& checked) {
  nb::ndarray<> array;
  if (!nb::try_cast(object, array, false)) value_error(name + " must be writable; it is changed in place");
  return const_cast<void*>(checked.data());
}

bool overlap(const AnyArray& a, const AnyArray& b) {
  const auto* const a_begin = static_cast<const char*>(a.data());
  const auto* const b_begin = static_cast<const char*>(b.data());
  return a_begin < b_begin + b.nbytes() && b_begin < a_begin + a.nbytes();
}

std::uint64_t as_integer(nb::handle object, const std::string& name, std::uint64_t low, std::uint64_t high) {
  const nb::object number = nb::steal(PyNumber_Index(object.ptr()));
  if (!number.is_valid()) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) nb::raise_python_error();
    PyErr_Clear();
    type_error(name + " must be an integer, got " + text(nb::inst_name(object)));
  }
  const unsigned long long value = PyLong_AsUnsignedLongLong(number.ptr());
  const bool is_outside = PyErr_Occurred() != nullptr;  // negative, or beyond 64 bits
  PyErr_Clear();
  if (is_outside || value < low || value > high) {
    value_error(name + " must be in " + std::to_string(low) + ".." + std::to_string(high) + ", got " + text(number));
  }
  return value;
}

double as_number(nb::handle object, const std::string& name) {
  const double value = PyFloat_AsDouble(object.ptr());
  if (PyErr_Occurred() != nullptr) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_OverflowError)) {
      nb::raise_python_error();
    }
    PyErr_Clear();
    type_error(name + " must be a number, got " + text(nb::inst_name(object)));
  }
  if (!std::isfinite(value)) value_error(name + " must be finite, got " + text(nb::str(object)));
  return value;
}

template <class T>
const T* items(const AnyArray& array, nb::handle object, const std::string& name, std::vector<std::size_t> shape) {
  if (array.dtype() != nb::dtype<T>()) {
    type_error(name + " must be " + kTypeName<T> + ", got " + dtype_text(object));
  }
  bool fits = array.ndim() == shape.size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) fits = array.shape(d) == shape[d];
  if (!fits) {
    value_error(name + " must have shape " + shape_text(shape.size(), [&](std::size_t d) { return shape[d]; }) +
                ", got " + shape_text(array.ndim(), [&](std::size_t d) { return array.shape(d); }));
  }
  return static_cast<const T*>(array.data());
}

template const float* items(const AnyArray&, nb::handle, const std::string&, std::vector<std::size_t>);
template const std::int64_t* items(const AnyArray&, nb::handle, const std::string&, std::vector<std::size_t>);
template const std::int32_t* items(const AnyArray&, nb::handle, const std::string&, std::vector<std::size_t>);
template const std::uint32_t* items(const AnyArray&, nb::handle, const std::string&, std::vector<std::size_t>);
template const std::uint8_t* items(const AnyArray&, nb::handle, const std::string&, std::vector<std::size_t>);
template const std::uint16_t* items(const AnyArray&, nb::handle, const std::string&, std::vector<std::size_t>);

}  // namespace fleet::bind
