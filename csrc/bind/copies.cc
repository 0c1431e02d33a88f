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
#include "keys/hash.h"

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

// What the keys of a batch were found to be, for those that use them again.
Located* located_of(nb::handle located) { return located.is_none() ? nullptr : nb::cast<Located*>(located); }

// Those of grouped keys that servers are to be asked for, where they are among all, where each server's end, and what
// was found.
nb::tuple missing(const Copies& copies, nb::handle keys, nb::handle offsets) {
  const AnyArray array = as_int64(keys, "keys"), end_array = as_int64(offsets, "offsets");
  const std::int64_t *all = int64s(array), *ends = int64s(end_array);
  fleet::Array<std::int64_t> found, positions, found_ends(end_array.size());
  Located located;
  {
    WithoutGil release;
    located = copies.locate(all, array.size());
    const std::vector<std::int64_t> at = copies.missing(located);
    found = fleet::Array<std::int64_t>(at.size());
    positions = fleet::Array<std::int64_t>(at.size());
    std::copy(at.begin(), at.end(), positions.data());
    std::transform(at.begin(), at.end(), found.data(), [&](std::int64_t i) { return all[i]; });
    for (std::size_t s = 0; s < end_array.size(); ++s)
      found_ends[s] = std::lower_bound(at.begin(), at.end(), ends[s]) - at.begin();
  }
  return nb::make_tuple(to_numpy(std::move(found)), to_numpy(std::move(positions)), to_numpy(std::move(found_ends)),
                        nb::cast(std::move(located)));
}

void pull(Copies& copies, nb::handle keys, nb::handle out, nb::handle positions, nb::handle fetched,
          nb::handle located) {
  const AnyArray array = as_int64(keys, "keys"), out_array = as_array(out, "out");
  items<float>(out_array, out, "out", {array.size(), copies.width()});
  auto* data = static_cast<float*>(writable(out, "out", out_array));
  Located own, *found = located_of(located);
  if (found == nullptr) found = &own;
  if (positions.is_none()) {
    WithoutGil release;
    copies.locate_again(int64s(array), array.size(), *found);
    copies.pull(*found, data);
    return;
  }
  const AnyArray position_array = as_int64(positions, "positions"), row_array = as_array(fetched, "fetched");
  const float* rows = items<float>(row_array, fetched, "fetched", {position_array.size(), copies.width()});
  const std::int64_t* at = int64s(position_array);
  for (std::size_t i = 0; i < position_array.size(); ++i) {
    if (at[i] < (i == 0 ? 0 : at[i - 1] + 1) || at[i] >= static_cast<std::int64_t>(array.size())) {
      value_error("positions must ascend, and name keys");
    }
  }
  WithoutGil release;
  copies.locate_again(int64s(array), array.size(), *found);
  copies.pull(int64s(array), *found, at, position_array.size(), rows, data);
}

std::size_t push(Copies& copies, nb::handle keys, nb::handle grads, nb::handle lr, bool skip_nonfinite,
                 nb::handle located) {
  const AnyArray array = as_int64(keys, "keys"), grad_array = as_array(grads, "grads");
  const float* data = items<float>(grad_array, grads, "grads", {array.size(), copies.width()});
  const double rate = as_number(lr, "lr");
  if (rate < 0) value_error("lr must be >= 0, got " + text(nb::str(lr)));
  Located own, *found = located_of(located);
  if (found == nullptr) found = &own;
  WithoutGil release;
  copies.locate_again(int64s(array), array.size(), *found);
  return copies.push(int64s(array), *found, data, rate, skip_nonfinite);
}

nb::tuple difference(Copies& copies, nb::handle num_workers, nb::handle num_servers) {
  const std::uint32_t workers = as_workers(num_workers);
  const auto servers = static_cast<std::uint32_t>(as_integer(num_servers, "num_servers", 1, fleet::kMaxServers));
  std::shared_ptr<Copies::Difference> found;
  {
    WithoutGil release;
    found = copies.difference(workers, servers);
  }
  using Held = std::shared_ptr<Copies::Difference>;
  const nb::capsule owner(new Held(found), [](void* data) noexcept { delete static_cast<Held*>(data); });
  const std::size_t n = found->keys.size();
  return nb::make_tuple(
      nb::cast(nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>(found->keys.data(), {n}, owner)),
      nb::cast(nb::ndarray<nb::numpy, float, nb::ndim<2>>(found->sent.data(), {n, copies.width()}, owner)),
      nb::cast(nb::ndarray<nb::numpy, std::uint32_t, nb::ndim<1>>(found->touches.data(), {n}, owner)),
      nb::cast(
          nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>(found->offsets.data(), {found->offsets.size()}, owner)));
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
  WithoutGil release;
  copies.merge(int64s(array), n, sent_data, touch_data, row_data, workers, part);
}

}  // namespace

void add_copies(nb::module_& m) {
  nb::class_<Located>(m, "Located", "Copies of some keys, found; see _native.pyi.");
  nb::class_<Copies>(m, "Copies", "A worker's copies of rows in geo mode; see _native.pyi.")
      .def(nb::new_(&make_copies), nb::arg("name"), nb::arg("width").none(), nb::arg("rule"), nb::arg("rule_args"),
           nb::arg("bounds").none() = nb::none(), nb::arg("max_norm").none() = nb::none(),
           nb::arg("norm_type").none() = 2.0, nb::arg("tolerance").none() = 0.0)
      .def("missing", &missing, nb::arg("keys").none(), nb::arg("offsets").none())
      .def("pull", &pull, nb::arg("keys").none(), nb::arg("out").none(), nb::arg("positions").none() = nb::none(),
           nb::arg("fetched").none() = nb::none(), nb::arg("located").none() = nb::none())
      .def("push", &push, nb::arg("keys").none(), nb::arg("grads").none(), nb::kw_only(), nb::arg("lr").none(),
           nb::arg("skip_nonfinite") = false, nb::arg("located").none() = nb::none())
      .def("difference", &difference, nb::arg("num_workers").none(), nb::arg("num_servers").none())
      .def("merge", &merge, nb::arg("keys").none(), nb::arg("sent").none(), nb::arg("touches").none(),
           nb::arg("rows").none(), nb::arg("num_workers").none(), nb::arg("awaited").none())
      .def("age", &Copies::age, nb::call_guard<WithoutGil>())
      .def("clear", &Copies::clear)
      .def("__len__", &Copies::size)
      .def_prop_ro("memory_bytes", &Copies::bytes);
}

}  // namespace fleet::bind
