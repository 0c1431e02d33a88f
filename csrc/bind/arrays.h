// What every binding needs: arrays from Python are checked, never copied; results own their memory.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bind/gil.h"
#include "keys/array.h"

namespace fleet::bind {

namespace nb = nanobind;

using AnyArray = nb::ndarray<nb::ro>;

std::string text(nb::handle object);

// The dtype, or the class where there is none: bytes are an array, too.
std::string dtype_text(nb::handle object);

[[noreturn]] void type_error(const std::string& message);
[[noreturn]] void value_error(const std::string& message);

// Any CPU array without gaps. `name` is the argument's, for the error.
AnyArray as_array(nb::handle object, const std::string& name);

// The same, of one dimension and int64.
AnyArray as_int64(nb::handle object, const std::string& name);

// The same, of `size` floats.
AnyArray as_floats(nb::handle object, const std::string& name, std::size_t size);

// The memory of an array that was checked, to be written to.
void* writable(nb::handle object, const std::string& name, const AnyArray& checked);

// Whether two arrays share memory.
bool overlap(const AnyArray& a, const AnyArray& b);

// An integer within bounds, or a number that is finite; the error is one line where nanobind's lists every overload.
std::uint64_t as_integer(nb::handle object, const std::string& name, std::uint64_t low, std::uint64_t high);
double as_number(nb::handle object, const std::string& name);

// The items of an array that must be of type T and of this shape.
template <class T>
const T* items(const AnyArray& array, nb::handle object, const std::string& name, std::vector<std::size_t> shape);

inline const std::int64_t* int64s(const AnyArray& array) { return static_cast<const std::int64_t*>(array.data()); }

template <class T>
nb::capsule own(fleet::Array<T>& array) {
  nb::capsule owner(array.data(), [](void* data) noexcept { delete[] static_cast<T*>(data); });
  array.release();
  return owner;
}

// A numpy array that owns the memory; nothing is copied.
template <class T>
nb::object to_numpy(fleet::Array<T> array) {
  T* data = array.data();
  const nb::capsule owner = own(array);
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {array.size()}, owner));
}

// The same, of two dimensions.
template <class T>
nb::object to_numpy(fleet::Array<T> array, std::size_t rows, std::size_t width) {
  T* data = array.data();
  const nb::capsule owner = own(array);
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<2>>(data, {rows, width}, owner));
}

// One function for each file of this folder: what it adds to the module.
void add_checksum(nb::module_& m);
void add_clicks(nb::module_& m);
void add_compress(nb::module_& m);
void add_copies(nb::module_& m);
void add_data(nb::module_& m);
void add_delimited(nb::module_& m);
void add_disk(nb::module_& m);
void add_field(nb::module_& m);
void add_format(nb::module_& m);
void add_keys(nb::module_& m);
void add_math(nb::module_& m);
void add_plane(nb::module_& m);
void add_holdings(nb::module_& m);
void add_pool(nb::module_& m);
void add_reader(nb::module_& m);
void add_rule(nb::module_& m);
void add_serve(nb::module_& m);
void add_table(nb::module_& m);
void add_threads(nb::module_& m);
void add_trace(nb::module_& m);

}  // namespace fleet::bind
