#include "bind/arrays.h"

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

}  // namespace fleet::bind
