#include "bind/arrays.h"
#include "math/tanh.h"

namespace fleet::bind {

namespace {

void add_bias_and_tanh(nb::handle values, nb::handle bias) {
  const AnyArray array = as_array(values, "values");
  if (array.ndim() != 2) value_error("values must have 2 dimensions, got " + std::to_string(array.ndim()));
  const std::size_t rows = array.shape(0), columns = array.shape(1);
  items<float>(array, values, "values", {rows, columns});
  const AnyArray biases = as_floats(bias, "bias", columns);
  if (overlap(array, biases)) value_error("values and bias must not share memory");
  auto* const data = static_cast<float*>(writable(values, "values", array));
  const auto* const bias_data = static_cast<const float*>(biases.data());
  WithoutGil release;
  fleet::add_bias_and_tanh(data, bias_data, rows, columns);
}

}  // namespace

void add_math(nb::module_& m) {
  m.def("add_bias_and_tanh", &add_bias_and_tanh, nb::arg("values").none(), nb::arg("bias").none(),
        "values = tanh(values + bias), in place.");
}

}  // namespace fleet::bind
