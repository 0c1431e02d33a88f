#include "compress/format.h"

#include <algorithm>

#include "bind/arrays.h"
#include "compress/topk.h"

namespace fleet::bind {

namespace {

WireFormat as_format(nb::handle format) {
  return static_cast<WireFormat>(as_integer(format, "format", 0, kNumFormats - 1));
}

AnyArray as_rows(nb::handle rows) {
  const AnyArray array = as_array(rows, "rows");
  if (array.ndim() != 2) value_error("rows must have 2 dimensions, got " + std::to_string(array.ndim()));
  items<float>(array, rows, "rows", {array.shape(0), array.shape(1)});
  return array;
}

// Bytes of an encoded tensor, of any dtype and shape.
const std::uint8_t* as_bytes(const AnyArray& array, std::size_t size) {
  if (array.nbytes() != size) {
    value_error("data must have " + std::to_string(size) + " bytes, got " + std::to_string(array.nbytes()));
  }
  return static_cast<const std::uint8_t*>(array.data());
}

// Rows are made of messages of strangers: no product of two of their numbers may pass for a small one.
std::size_t as_size(nb::handle object, const std::string& name) { return as_integer(object, name, 0, 1u << 31); }

nb::object encode_rows(nb::handle rows, nb::handle format, nb::handle keys, std::uint64_t seed, std::uint32_t step) {
  const WireFormat as = as_format(format);
  const AnyArray array = as_rows(rows);
  const std::size_t n = array.shape(0), width = array.shape(1), stride = row_bytes(as, width);
  const auto* const values = static_cast<const float*>(array.data());
  const std::int64_t* chances = nullptr;
  AnyArray given;
  if (!keys.is_none()) {
    given = as_int64(keys, "keys");
    if (given.size() != n) {
      value_error("keys must have " + std::to_string(n) + " elements, got " + std::to_string(given.size()));
    }
    chances = int64s(given);
  }
  Array<std::uint8_t> out(n * stride);
  {
    WithoutGil release;
    if (chances == nullptr) {
      fleet::encode_rows(as, values, n, width, out.data());
    } else {
      encode_rows_by_chance(as, values, n, width, chances, seed, step, out.data());
    }
  }
  return to_numpy(std::move(out), n, stride);
}

nb::object decode_rows(nb::handle data, nb::handle format, nb::handle num_rows, nb::handle row_width) {
  const WireFormat as = as_format(format);
  const std::size_t n = as_size(num_rows, "rows"), width = as_size(row_width, "width");
  const AnyArray array = as_array(data, "data");
  const std::uint8_t* const bytes = as_bytes(array, n * row_bytes(as, width));
  Array<float> out(n * width);
  {
    WithoutGil release;
    fleet::decode_rows(as, bytes, n, width, out.data());
  }
  return to_numpy(std::move(out), n, width);
}

nb::object encode_vector(nb::handle values, nb::handle residual, nb::handle format) {
  const WireFormat as = as_format(format);
  const std::size_t n = as_array(values, "values").size();
  const AnyArray array = as_floats(values, "values", n);
  float* left = nullptr;
  if (!residual.is_none()) {
    const AnyArray rest = as_floats(residual, "residual", n);
    if (overlap(array, rest)) value_error("values and residual must not share memory");
    left = static_cast<float*>(writable(residual, "residual", rest));
  }
  Array<std::uint8_t> out(vector_bytes(as, n));
  {
    WithoutGil release;
    fleet::encode_vector(as, static_cast<const float*>(array.data()), left, n, out.data());
  }
  return to_numpy(std::move(out));
}

nb::object decode_vector(nb::handle data, nb::handle format, nb::handle size) {
  const WireFormat as = as_format(format);
  const std::size_t n = as_size(size, "size");
  const AnyArray array = as_array(data, "data");
  const std::uint8_t* const bytes = as_bytes(array, vector_bytes(as, n));
  Array<float> out(n);
  {
    WithoutGil release;
    fleet::decode_vector(as, bytes, n, out.data());
  }
  return to_numpy(std::move(out));
}

AnyArray as_places(nb::handle index) {
  AnyArray array = as_array(index, "index");
  if (array.dtype() != nb::dtype<std::int32_t>()) type_error("index must be int32, got " + dtype_text(index));
  if (array.ndim() != 1) value_error("index must have 1 dimension, got " + std::to_string(array.ndim()));
  return array;
}

template <class T>
Array<T> first(Array<T> array, std::size_t count) {
  if (count == array.size()) return array;
  Array<T> part(count);
  std::copy_n(array.data(), count, part.data());
  return part;
}

nb::tuple take_largest(nb::handle grad, nb::handle sum, nb::handle most, std::uint64_t seed) {
  const std::size_t n = as_array(grad, "grad").size();
  if (n > INT32_MAX) value_error("grad must have fewer than 2^31 elements, got " + std::to_string(n));
  const AnyArray grads = as_floats(grad, "grad", n), sums = as_floats(sum, "sum", n);
  if (overlap(grads, sums)) value_error("grad and sum must not share memory");
  auto* const sum_data = static_cast<float*>(writable(sum, "sum", sums));
  const std::size_t k = std::min<std::size_t>(as_size(most, "most"), n);
  Array<std::int32_t> index(k);
  Array<float> value(k);
  std::size_t count = 0;
  {
    WithoutGil release;
    count =
        fleet::take_largest(static_cast<const float*>(grads.data()), sum_data, n, k, seed, index.data(), value.data());
  }
  return nb::make_tuple(to_numpy(first(std::move(index), count)), to_numpy(first(std::move(value), count)));
}

nb::object spread(nb::handle index, nb::handle value, nb::handle size) {
  const AnyArray places = as_places(index);
  const AnyArray values = as_floats(value, "value", places.size());
  Array<float> out(as_size(size, "size"));
  bool is_right = false;
  {
    WithoutGil release;
    is_right = fleet::spread(static_cast<const std::int32_t*>(places.data()), static_cast<const float*>(values.data()),
                             places.size(), out.data(), out.size());
  }
  if (!is_right) value_error("index must ascend and stay below " + std::to_string(out.size()));
  return to_numpy(std::move(out));
}

}  // namespace

void add_format(nb::module_& m) {
  m.def("encode_rows", &encode_rows, nb::arg("rows").none(), nb::arg("format"), nb::arg("keys") = nb::none(),
        nb::arg("seed") = 0, nb::arg("step") = 0, "Rows as they travel.");
  m.def("decode_rows", &decode_rows, nb::arg("data").none(), nb::arg("format"), nb::arg("rows"), nb::arg("width"),
        "Rows that have travelled.");
  m.def("encode_vector", &encode_vector, nb::arg("values").none(), nb::arg("residual").none(), nb::arg("format"),
        "A vector as it travels, and what of it stays here.");
  m.def("decode_vector", &decode_vector, nb::arg("data").none(), nb::arg("format"), nb::arg("size"),
        "A vector that has travelled.");
  m.def("take_largest", &take_largest, nb::arg("grad").none(), nb::arg("sum").none(), nb::arg("most"), nb::kw_only(),
        nb::arg("seed"), "Adds a gradient to a sum and takes the largest of it.");
  m.def("spread", &spread, nb::arg("index").none(), nb::arg("value").none(), nb::arg("size"),
        "Values at some places of a vector of zeroes.");
}

}  // namespace fleet::bind
