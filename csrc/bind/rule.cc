#include "rule/rule.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <cmath>

#include "bind/arrays.h"
#include "init/initializer.h"

namespace fleet::bind {

namespace {

void apply(const Rule& rule, nb::handle values, nb::handle state, nb::handle grads, double lr) {
  const std::size_t n = as_array(values, "values").size();
  const AnyArray value_array = as_floats(values, "values", n);
  const AnyArray state_array = as_floats(state, "state", rule.state_width(n));
  const AnyArray grad_array = as_floats(grads, "grads", n);
  float* const value_data = static_cast<float*>(writable(values, "values", value_array));
  float* const state_data = static_cast<float*>(writable(state, "state", state_array));
  if (overlap(value_array, grad_array) || overlap(value_array, state_array) || overlap(state_array, grad_array)) {
    value_error("values, state and grads must not share memory");
  }
  if (!(lr >= 0) || std::isinf(lr)) value_error("lr must be >= 0 and finite, got " + fleet::plain(lr));
  WithoutGil release;
  rule.apply(value_data, state_data, static_cast<const float*>(grad_array.data()), n, lr);
}

nb::object start(const Rule& rule, std::size_t n) {
  fleet::Array<float> state(rule.state_width(n));
  rule.start(state.data(), n);
  return to_numpy(std::move(state));
}

nb::object initialize(const std::string& name, const fleet::Args& args, std::uint64_t seed, const std::string& table,
                      nb::handle keys, std::size_t width) {
  const auto initializer = fleet::make_initializer(name, args);
  const AnyArray array = as_int64(keys, "keys");
  fleet::Array<float> rows;
  {
    WithoutGil release;
    rows = fleet::Array<float>(array.size() * width);
    const std::uint64_t mixed = fleet::table_seed(seed, table);
    for (std::size_t i = 0; i < array.size(); ++i) {
      initializer->fill(mixed, int64s(array)[i], rows.data() + i * width, width);
    }
  }
  return to_numpy(std::move(rows), array.size(), width);
}

}  // namespace

void add_rule(nb::module_& m) {
  nb::class_<Rule>(m, "Rule", "How a gradient changes values; on dense buffers.")
      .def(nb::new_([](const std::string& name, const fleet::Args& args) { return fleet::make_rule(name, args); }),
           nb::arg("name"), nb::arg("args"))
      .def_prop_ro("lr", &Rule::lr, "The rate it was made with.")
      .def("state_width", &Rule::state_width, nb::arg("n"), "Floats of state beside n values.")
      .def("start", &start, nb::arg("n"), "The state of n new values.")
      .def("apply", &apply, nb::arg("values").none(), nb::arg("state").none(), nb::arg("grads").none(), nb::arg("lr"),
           "One update, in place.");
  m.def("initialize", &initialize, nb::arg("name"), nb::arg("args"), nb::arg("seed"), nb::arg("table"),
        nb::arg("keys").none(), nb::arg("width"), "The first values of rows: float32[n, width].");
}

}  // namespace fleet::bind
