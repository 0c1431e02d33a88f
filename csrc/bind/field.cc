#include "data/field.h"

#include "bind/arrays.h"

namespace fleet::bind {

using namespace fleet::data;

namespace {

nb::object signed_log(nb::handle values) {
  const AnyArray array = as_array(values, "values");
  if (array.dtype() != nb::dtype<double>()) type_error("values must be float64, got " + dtype_text(values));
  const auto* const numbers = static_cast<const double*>(array.data());
  Array<float> made(array.size());
  {
    WithoutGil release;
    for (std::size_t i = 0; i < array.size(); ++i) made.data()[i] = Logarithm::shared().of_number(numbers[i]);
  }
  return to_numpy(std::move(made));
}

}  // namespace

void add_field(nb::module_& m) {
  m.def("signed_log", &signed_log, nb::arg("values").none(), "sign(x) * log(1 + |x|), as numbers in text have it.");
}

}  // namespace fleet::bind
