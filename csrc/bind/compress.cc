#include "bind/arrays.h"
#include "compress/topk.h"

namespace fleet::bind {

namespace {

AnyArray as_int32(nb::handle object, const std::string& name) {
  AnyArray array = as_array(object, name);
  if (array.dtype() != nb::dtype<std::int32_t>()) type_error(name + " must be int32, got " + dtype_text(object));
  if (array.ndim() != 1) value_error(name + " must have 1 dimension, got " + std::to_string(array.ndim()));
  return array;
}

// What is multiplied with floats is a float itself.
float as_factor(nb::handle object, const std::string& name) { return static_cast<float>(as_number(object, name)); }

std::size_t compress(nb::handle grad, nb::handle weight, nb::handle momentum, nb::handle sum, nb::handle index,
                     nb::handle value, nb::handle scale, nb::handle decay, nb::handle mu, bool nesterov,
                     std::uint64_t seed) {
  const std::size_t n = as_array(grad, "grad").size();
  if (n > INT32_MAX) value_error("grad must have fewer than 2^31 elements, got " + std::to_string(n));
  const AnyArray grads = as_floats(grad, "grad", n), momenta = as_floats(momentum, "momentum", n),
                 sums = as_floats(sum, "sum", n), indices = as_int32(index, "index"),
                 values = as_floats(value, "value", indices.size());
  const AnyArray weights = weight.is_none() ? AnyArray() : as_floats(weight, "weight", n);
  const Correction correction{as_factor(scale, "scale"), as_factor(decay, "decay"), as_factor(mu, "mu"), nesterov};
  if (weight.is_none() && correction.decay != 0) value_error("weight must not be None where decay is not 0");
  const AnyArray* const written[] = {&grads, &momenta, &sums, &indices, &values};
  for (const AnyArray* const* a = std::begin(written); a != std::end(written); ++a) {
    bool shared = !weight.is_none() && overlap(**a, weights);
    for (const AnyArray* const* b = std::begin(written); b != a; ++b) shared = shared || overlap(**a, **b);
    if (shared) value_error("grad, weight, momentum, sum, index and value must not share memory");
  }
  const Unsent unsent{static_cast<float*>(writable(grad, "grad", grads)),
                      weight.is_none() ? nullptr : static_cast<const float*>(weights.data()),
                      static_cast<float*>(writable(momentum, "momentum", momenta)),
                      static_cast<float*>(writable(sum, "sum", sums)), n};
  auto* const index_data = static_cast<std::int32_t*>(writable(index, "index", indices));
  auto* const value_data = static_cast<float*>(writable(value, "value", values));
  WithoutGil release;
  return fleet::compress(unsent, correction, indices.size(), seed, index_data, value_data);
}

}  // namespace

void add_compress(nb::module_& m) {
  m.def("compress", &compress, nb::arg("grad").none(), nb::arg("weight").none(), nb::arg("momentum").none(),
        nb::arg("sum").none(), nb::arg("index").none(), nb::arg("value").none(), nb::kw_only(), nb::arg("scale"),
        nb::arg("decay"), nb::arg("mu"), nb::arg("nesterov"), nb::arg("seed"),
        "Adds a gradient to what was not sent yet and takes the largest of it.");
}

}  // namespace fleet::bind
