#include <algorithm>
#include <type_traits>

#include "bind/arrays.h"
#include "pool/bags.h"
#include "pool/gather.h"
#include "pool/weighted.h"

namespace fleet::bind {

namespace {

// A matrix of floats whose rows may lie apart: some columns of a wider one.
template <class Float>
struct Matrix {
  nb::ndarray<Float> array;  // keeps the memory alive while the GIL is away
  Float* data;
  std::size_t height;
  std::size_t width;
  std::ptrdiff_t stride;
};

// Why an object is no such matrix at all.
[[noreturn]] void no_matrix(nb::handle object, const std::string& name) {
  if (!nb::ndarray_check(object)) {
    type_error(name + " must be a numpy array or a CPU tensor, got " + text(nb::inst_name(object)));
  }
  AnyArray any;
  if (!nb::try_cast(object, any, false) || any.dtype() != nb::dtype<float>()) {
    type_error(name + " must be float32, got " + dtype_text(object));
  }
  value_error(name + " must be writable");
}

// Float is const for what is read only. Rows that are written must not overlap.
template <class Float>
Matrix<Float> as_matrix(nb::handle object, const std::string& name) {
  nb::ndarray<Float> array;
  if (!nb::try_cast(object, array, false)) no_matrix(object, name);
  if (array.device_type() != nb::device::cpu::value) {
    value_error(name + " must lie in CPU memory; call .cpu() on it first");
  }
  if (array.ndim() != 2) value_error(name + " must have 2 dimensions, got " + std::to_string(array.ndim()));
  const std::size_t height = array.shape(0), width = array.shape(1);
  // A dimension of one element may have any stride.
  if (height > 0 && width > 1 && array.stride(1) != 1) {
    value_error(name + " must have contiguous rows; make a copy with .contiguous() or .copy() first");
  }
  if (!std::is_const_v<Float> && height > 1 && array.stride(0) < static_cast<std::int64_t>(width)) {
    value_error(name + " has rows that overlap; make a copy with .contiguous() or .copy() first");
  }
  const auto stride = static_cast<std::ptrdiff_t>(height > 1 ? array.stride(0) : static_cast<std::int64_t>(width));
  Float* const data = array.data();
  return {std::move(array), data, height, width, stride};
}

// The distinct rows, which lie one after the other.
template <class Float>
RowsOf<Float> as_rows(const Matrix<Float>& matrix, const std::string& name) {
  if (matrix.stride != static_cast<std::ptrdiff_t>(matrix.width)) {
    value_error(name + " must be contiguous; make a copy with .contiguous() or .copy() first");
  }
  return {matrix.data, matrix.height, matrix.width};
}

std::string shape_text(std::size_t height, std::size_t width) {
  return "[" + std::to_string(height) + ", " + std::to_string(width) + "]";
}

template <class Float>
void check_shape(const Matrix<Float>& matrix, const std::string& name, std::size_t height, std::size_t width) {
  if (matrix.height != height || matrix.width != width) {
    value_error(name + " must have shape " + shape_text(height, width) + ", got " +
                shape_text(matrix.height, matrix.width));
  }
}

[[noreturn]] void bad_inverse(const AnyArray& inverse, std::size_t num_rows) {
  const std::int64_t* const end = int64s(inverse) + inverse.size();
  const auto* const bad = std::find_if(
      int64s(inverse), end, [=](std::int64_t index) { return static_cast<std::uint64_t>(index) >= num_rows; });
  value_error("inverse names row " + (bad == end ? std::string("?") : std::to_string(*bad)) + ", but there are " +
              std::to_string(num_rows) + " rows");
}

// [n], or [slots, batch].
AnyArray as_inverse(nb::handle object) {
  AnyArray array = as_array(object, "inverse");
  if (array.dtype() != nb::dtype<std::int64_t>()) type_error("inverse must be int64, got " + dtype_text(object));
  if (array.ndim() != 1 && array.ndim() != 2) {
    value_error("inverse must have 1 or 2 dimensions, got " + std::to_string(array.ndim()));
  }
  return array;
}

// Where the places of an inverse lie in `matrix`, which must have room for just these.
template <class Float>
Places places_in(const Matrix<Float>& matrix, const std::string& name, const AnyArray& inverse, std::size_t width) {
  const std::size_t num_slots = inverse.ndim() == 2 ? inverse.shape(0) : 1;
  const std::size_t batch = inverse.ndim() == 2 ? inverse.shape(1) : inverse.shape(0);
  check_shape(matrix, name, batch, num_slots * width);
  return {int64s(inverse), num_slots, batch, matrix.stride};
}

void gather(nb::handle rows_object, nb::handle inverse_object, nb::handle out_object) {
  const auto rows_matrix = as_matrix<const float>(rows_object, "rows");
  const RowsOf<const float> rows = as_rows(rows_matrix, "rows");
  const AnyArray inverse = as_inverse(inverse_object);
  const auto out = as_matrix<float>(out_object, "out");
  const Places places = places_in(out, "out", inverse, rows.width);
  bool valid = false;
  {
    WithoutGil release;
    valid = fleet::all_below(int64s(inverse), inverse.size(), rows.num_rows);
    if (valid) fleet::gather(rows, places, out.data);
  }
  if (!valid) bad_inverse(inverse, rows.num_rows);
}

void scatter(nb::handle grad_out_object, nb::handle inverse_object, nb::handle grad_rows_object) {
  const auto grad_out = as_matrix<const float>(grad_out_object, "grad_out");
  const AnyArray inverse = as_inverse(inverse_object);
  const auto rows_matrix = as_matrix<float>(grad_rows_object, "grad_rows");
  const RowsOf<float> grad_rows = as_rows(rows_matrix, "grad_rows");
  const Places places = places_in(grad_out, "grad_out", inverse, grad_rows.width);
  bool valid = false;
  {
    WithoutGil release;
    valid = fleet::all_below(int64s(inverse), inverse.size(), grad_rows.num_rows);
    if (valid) fleet::scatter(grad_out.data, places, grad_rows);
  }
  if (!valid) bad_inverse(inverse, grad_rows.num_rows);
}

Bags as_bags(const AnyArray& inverse, const AnyArray& offsets, bool mean, bool include_last_offset,
             std::int64_t padding = -1) {
  if (include_last_offset && offsets.size() == 0) {
    value_error("offsets must hold at least the end of the last bag, got none");
  }
  const std::size_t num_bags = offsets.size() - (include_last_offset ? 1 : 0);
  const Bags bags{int64s(inverse), inverse.size(), int64s(offsets), offsets.size(), num_bags, mean, padding};
  // Checked before the GIL goes: there are few.
  if (!fleet::starts_ascend(bags)) {
    value_error("offsets must begin with 0, never decrease and stay within the " + std::to_string(inverse.size()) +
                " entries of inverse");
  }
  return bags;
}

// Does some work without the GIL, if every entry of the inverse names one of so many rows.
template <class Work>
void if_valid(const AnyArray& inverse, const Bags& bags, std::size_t num_rows, const Work& work) {
  bool valid = false;
  {
    WithoutGil release;
    valid = fleet::all_below(bags.inverse, bags.n, num_rows);
    if (valid) work();
  }
  if (!valid) bad_inverse(inverse, num_rows);
}

void pool_bags(nb::handle rows_object, nb::handle inverse_object, nb::handle offsets_object, nb::handle out_object,
               bool mean, bool include_last_offset, std::int64_t padding) {
  const auto rows_matrix = as_matrix<const float>(rows_object, "rows");
  const RowsOf<const float> rows = as_rows(rows_matrix, "rows");
  const AnyArray inverse = as_int64(inverse_object, "inverse");
  const AnyArray offsets = as_int64(offsets_object, "offsets");
  const Bags bags = as_bags(inverse, offsets, mean, include_last_offset, padding);
  const auto out = as_matrix<float>(out_object, "out");
  check_shape(out, "out", bags.num_bags, rows.width);
  if_valid(inverse, bags, rows.num_rows, [&] { fleet::pool_bags(rows, bags, out.data, out.stride); });
}

void unpool_bags(nb::handle grad_out_object, nb::handle inverse_object, nb::handle offsets_object,
                 nb::handle grad_rows_object, bool mean, bool include_last_offset, std::int64_t padding) {
  const auto grad_out = as_matrix<const float>(grad_out_object, "grad_out");
  const AnyArray inverse = as_int64(inverse_object, "inverse");
  const AnyArray offsets = as_int64(offsets_object, "offsets");
  const Bags bags = as_bags(inverse, offsets, mean, include_last_offset, padding);
  const auto rows_matrix = as_matrix<float>(grad_rows_object, "grad_rows");
  const RowsOf<float> grad_rows = as_rows(rows_matrix, "grad_rows");
  check_shape(grad_out, "grad_out", bags.num_bags, grad_rows.width);
  if_valid(inverse, bags, grad_rows.num_rows,
           [&] { fleet::unpool_bags(grad_out.data, grad_out.stride, bags, grad_rows); });
}

// float32, one for each entry of the inverse.
template <class Float>
Float* as_weights(nb::ndarray<Float, nb::c_contig>& array, nb::handle object, const std::string& name, std::size_t n) {
  if (!nb::try_cast(object, array, false) || array.device_type() != nb::device::cpu::value) {
    type_error(name + " must be a contiguous float32 array in CPU memory, got " + text(nb::inst_name(object)));
  }
  if (array.ndim() != 1 || array.shape(0) != n) {
    value_error(name + " must have shape [" + std::to_string(n) + "], one for each entry of inverse");
  }
  return array.data();
}

void pool_weighted(nb::handle rows_object, nb::handle inverse_object, nb::handle offsets_object,
                   nb::handle weights_object, nb::handle out_object, bool include_last_offset) {
  const auto rows_matrix = as_matrix<const float>(rows_object, "rows");
  const RowsOf<const float> rows = as_rows(rows_matrix, "rows");
  const AnyArray inverse = as_int64(inverse_object, "inverse");
  const AnyArray offsets = as_int64(offsets_object, "offsets");
  const Bags bags = as_bags(inverse, offsets, false, include_last_offset);
  nb::ndarray<const float, nb::c_contig> kept;
  const float* const weights = as_weights(kept, weights_object, "weights", bags.n);
  const auto out = as_matrix<float>(out_object, "out");
  check_shape(out, "out", bags.num_bags, rows.width);
  if_valid(inverse, bags, rows.num_rows, [&] { fleet::pool_weighted(rows, bags, weights, out.data, out.stride); });
}

void unpool_weighted(nb::handle grad_out_object, nb::handle inverse_object, nb::handle offsets_object,
                     nb::handle weights_object, nb::handle grad_rows_object, bool include_last_offset) {
  const auto grad_out = as_matrix<const float>(grad_out_object, "grad_out");
  const AnyArray inverse = as_int64(inverse_object, "inverse");
  const AnyArray offsets = as_int64(offsets_object, "offsets");
  const Bags bags = as_bags(inverse, offsets, false, include_last_offset);
  nb::ndarray<const float, nb::c_contig> kept;
  const float* const weights = as_weights(kept, weights_object, "weights", bags.n);
  const auto rows_matrix = as_matrix<float>(grad_rows_object, "grad_rows");
  const RowsOf<float> grad_rows = as_rows(rows_matrix, "grad_rows");
  check_shape(grad_out, "grad_out", bags.num_bags, grad_rows.width);
  if_valid(inverse, bags, grad_rows.num_rows,
           [&] { fleet::unpool_weighted(grad_out.data, grad_out.stride, bags, weights, grad_rows); });
}

void grade_weights(nb::handle grad_out_object, nb::handle inverse_object, nb::handle offsets_object,
                   nb::handle rows_object, nb::handle grad_weights_object, bool include_last_offset) {
  const auto grad_out = as_matrix<const float>(grad_out_object, "grad_out");
  const AnyArray inverse = as_int64(inverse_object, "inverse");
  const AnyArray offsets = as_int64(offsets_object, "offsets");
  const Bags bags = as_bags(inverse, offsets, false, include_last_offset);
  const auto rows_matrix = as_matrix<const float>(rows_object, "rows");
  const RowsOf<const float> rows = as_rows(rows_matrix, "rows");
  nb::ndarray<float, nb::c_contig> kept;
  float* const grad_weights = as_weights(kept, grad_weights_object, "grad_weights", bags.n);
  check_shape(grad_out, "grad_out", bags.num_bags, rows.width);
  if_valid(inverse, bags, rows.num_rows,
           [&] { fleet::grade_weights(grad_out.data, grad_out.stride, bags, rows, grad_weights); });
}

}  // namespace

void add_pool(nb::module_& m) {
  m.def("gather", &gather, nb::arg("rows").none(), nb::arg("inverse").none(), nb::arg("out").none(),
        "Copy to each place of a batch the row it uses.");
  m.def("scatter", &scatter, nb::arg("grad_out").none(), nb::arg("inverse").none(), nb::arg("grad_rows").none(),
        "Add to each row the gradients of the places that use it.");
  m.def("pool_bags", &pool_bags, nb::arg("rows").none(), nb::arg("inverse").none(), nb::arg("offsets").none(),
        nb::arg("out").none(), nb::arg("mean"), nb::arg("include_last_offset"), nb::arg("padding") = -1,
        "Sum or average the rows of each bag.");
  m.def("unpool_bags", &unpool_bags, nb::arg("grad_out").none(), nb::arg("inverse").none(), nb::arg("offsets").none(),
        nb::arg("grad_rows").none(), nb::arg("mean"), nb::arg("include_last_offset"), nb::arg("padding") = -1,
        "Add to each row the gradients of the bags that hold it.");
  m.def("pool_weighted", &pool_weighted, nb::arg("rows").none(), nb::arg("inverse").none(), nb::arg("offsets").none(),
        nb::arg("weights").none(), nb::arg("out").none(), nb::arg("include_last_offset"),
        "Sum the rows of each bag, each times its weight.");
  m.def("unpool_weighted", &unpool_weighted, nb::arg("grad_out").none(), nb::arg("inverse").none(),
        nb::arg("offsets").none(), nb::arg("weights").none(), nb::arg("grad_rows").none(),
        nb::arg("include_last_offset"), "Add to each row the weighted gradients of the bags that hold it.");
  m.def("grade_weights", &grade_weights, nb::arg("grad_out").none(), nb::arg("inverse").none(),
        nb::arg("offsets").none(), nb::arg("rows").none(), nb::arg("grad_weights").none(),
        nb::arg("include_last_offset"), "Write the gradient of each weight.");
}

}  // namespace fleet::bind
