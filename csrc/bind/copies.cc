#include "copies/copies.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "bind/arrays.h"

namespace fleet::bind {

namespace {

std::unique_ptr<Copies> make_copies(const std::string& name, nb::handle width, const std::string& rule,
                                    const fleet::Args& rule_args, const std::optional<std::pair<float, float>>& bounds,
                                    const std::optional<double>& max_norm, const std::optional<double>& norm_type,
                                    nb::handle tolerance) {
  CopyOptions options;
  options.name = name;
  options.width = as_integer(width, "table '" + name + "': width", 1, std::size_t{1} << 24);
  options.rule = make_rule(rule, rule_args);
  options.has_bounds = bounds.has_value();
  if (bounds) std::tie(options.low, options.high) = *bounds;
  options.has_max_norm = max_norm.has_value();
  options.max_norm = max_norm.value_or(0);
  options.norm_type = norm_type.value_or(std::numeric_limits<double>::infinity());
  options.tolerance = static_cast<float>(as_number(tolerance, "tolerance"));
  return std::make_unique<Copies>(std::move(options));
}

std::uint32_t as_workers(nb::handle num_workers) {
  return static_cast<std::uint32_t>(as_integer(num_workers, "num_workers", 1, 1u << 30));
}

// Those of grouped keys that servers are to be asked for, where they are among all, and where each server's end.
nb::tuple missing(const Copies& copies, nb::handle keys, nb::handle offsets) {
  const AnyArray array = as_int64(keys, "keys"), end_array = as_int64(offsets, "offsets");
  const std::int64_t *all = int64s(array), *ends = int64s(end_array);
  fleet::Array<std::int64_t> found, positions, found_ends(end_array.size());
  {
    nb::gil_scoped_release release;
    const std::vector<std::int64_t> at = copies.missing(all, array.size());
    found = fleet::Array<std::int64_t>(at.size());
    positions = fleet::Array<std::int64_t>(at.size());
    std::copy(at.begin(), at.end(), positions.data());
    std::transform(at.begin(), at.end(), found.data(), [&](std::int64_t i) { return all[i]; });
    for (std::size_t s = 0; s < end_array.size(); ++s)
      found_ends[s] = std::lower_bound(at.begin(), at.end(), ends[s]) - at.begin();
  }
  return nb::make_tuple(to_numpy(std::move(found)), to_numpy(std::move(positions)), to_numpy(std::move(found_ends)));
}

void pull(Copies& copies, nb::handle keys, nb::handle out, nb::handle positions, nb::handle fetched) {
  const AnyArray array = as_int64(keys, "keys"), out_array = as_array(out, "out");
  items<float>(out_array, out, "out", {array.size(), copies.width()});
  auto* data = static_cast<float*>(writable(out, "out", out_array));
  if (positions.is_none()) {
    nb::gil_scoped_release release;
    std::as_const(copies).pull(int64s(array), array.size(), data);
    return;
  }
  const AnyArray position_array = as_int64(positions, "positions"), row_array = as_array(fetched, "fetched");
  const float* rows = items<float>(row_array, fetched, "fetched", {position_array.size(), copies.width()});
  nb::gil_scoped_release release;
  copies.pull(int64s(array), array.size(), int64s(position_array), position_array.size(), rows, data);
}

std::size_t push(Copies& copies, nb::handle keys, nb::handle grads, nb::handle lr, bool skip_nonfinite) {
  const AnyArray array = as_int64(keys, "keys"), grad_array = as_array(grads, "grads");
  const float* data = items<float>(grad_array, grads, "grads", {array.size(), copies.width()});
  const double rate = as_number(lr, "lr");
  if (rate < 0) value_error("lr must be >= 0, got " + text(nb::str(lr)));
  nb::gil_scoped_release release;
  return copies.push(int64s(array), array.size(), data, rate, skip_nonfinite);
}

nb::tuple difference(Copies& copies, nb::handle num_workers) {
  const std::uint32_t workers = as_workers(num_workers);
  Copies::Difference found;
  {
    nb::gil_scoped_release release;
    found = copies.difference(workers);
  }
  const std::size_t n = found.keys.size();
  return nb::make_tuple(to_numpy(std::move(found.keys)), to_numpy(std::move(found.sent), n, copies.width()),
                        to_numpy(std::move(found.touches)));
}

void merge(Copies& copies, nb::handle keys, nb::handle sent, nb::handle touches, nb::handle rows,
           nb::handle num_workers, nb::handle awaited) {
  const AnyArray array = as_int64(keys, "keys"), sent_array = as_array(sent, "sent"),
                 row_array = as_array(rows, "rows");
  const AnyArray touch_array = as_array(touches, "touches");
  const std::size_t n = array.size();
  const float* sent_data = items<float>(sent_array, sent, "sent", {n, copies.width()});
  const float* row_data = items<float>(row_array, rows, "rows", {n, copies.width()});
  const auto* touch_data = items<std::uint32_t>(touch_array, touches, "touches", {n});
  const std::uint32_t workers = as_workers(num_workers);
  const double part = as_number(awaited, "awaited");
  nb::gil_scoped_release release;
  copies.merge(int64s(array), n, sent_data, touch_data, row_data, workers, part);
}

}  // namespace

void add_copies(nb::module_& m) {
  nb::class_<Copies>(m, "Copies", "A worker's copies of rows in geo mode; see _native.pyi.")
      .def(nb::new_(&make_copies), nb::arg("name"), nb::arg("width").none(), nb::arg("rule"), nb::arg("rule_args"),
           nb::arg("bounds").none() = nb::none(), nb::arg("max_norm").none() = nb::none(),
           nb::arg("norm_type").none() = 2.0, nb::arg("tolerance").none() = 0.0)
      .def("missing", &missing, nb::arg("keys").none(), nb::arg("offsets").none())
      .def("pull", &pull, nb::arg("keys").none(), nb::arg("out").none(), nb::arg("positions").none() = nb::none(),
           nb::arg("fetched").none() = nb::none())
      .def("push", &push, nb::arg("keys").none(), nb::arg("grads").none(), nb::kw_only(), nb::arg("lr").none(),
           nb::arg("skip_nonfinite") = false)
      .def("difference", &difference, nb::arg("num_workers").none())
      .def("merge", &merge, nb::arg("keys").none(), nb::arg("sent").none(), nb::arg("touches").none(),
           nb::arg("rows").none(), nb::arg("num_workers").none(), nb::arg("awaited").none())
      .def("age", &Copies::age, nb::call_guard<nb::gil_scoped_release>())
      .def("clear", &Copies::clear)
      .def("__len__", &Copies::size)
      .def_prop_ro("memory_bytes", &Copies::bytes);
}

}  // namespace fleet::bind
