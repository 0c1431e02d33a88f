// What a server holds and requests are about: dense parameters, and the tables beside them.
#include "plane/holdings.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <tuple>

#include "bind/arrays.h"
#include "trace/ring.h"

namespace fleet::bind {

namespace {

using namespace fleet::plane;

using Groups = std::vector<std::tuple<std::string, std::map<std::string, double>, std::vector<std::size_t>>>;

std::shared_ptr<Dense> make_dense(const Groups& groups) {
  std::vector<std::unique_ptr<Rule>> rules;
  std::vector<std::vector<std::size_t>> parts;
  for (const auto& [name, args, sizes] : groups) {
    rules.push_back(make_rule(name, args));
    parts.push_back(sizes);
  }
  return std::make_shared<Dense>(std::move(rules), parts);
}

std::size_t checked(const Dense& dense, std::size_t group) {
  if (group >= dense.num_groups()) value_error("there is no dense group " + std::to_string(group));
  return group;
}

const float* floats(const AnyArray& array) { return static_cast<const float*>(array.data()); }

void start(Dense& dense, std::size_t group, nb::handle values) {
  const AnyArray array = as_floats(values, "values", dense.size(checked(dense, group)));
  WithoutGil release;
  dense.start(group, floats(array));
}

void restore_dense(Dense& dense, std::size_t group, nb::handle values, nb::handle state) {
  const std::size_t size = dense.size(checked(dense, group));
  const AnyArray array = as_floats(values, "values", size);
  const bool is_split = !state.is_none() && nb::len(state) == dense.split_width(group);
  const std::size_t width = is_split ? dense.split_width(group) : dense.shared_width(group);
  const AnyArray states = as_floats(state, "state", width);
  WithoutGil release;
  dense.restore(group, floats(array), floats(states), width);
}

nb::object view_of(const Dense::Values& values) {
  auto* kept = new Dense::Values(values);
  const nb::capsule owner(kept, [](void* data) noexcept { delete static_cast<Dense::Values*>(data); });
  return nb::cast(nb::ndarray<nb::numpy, const float, nb::ndim<1>>(values->data(), {values->size()}, owner));
}

nb::list read_dense(const Dense& dense) {
  nb::list found;
  for (const Dense::Values& values : dense.read()) found.append(view_of(values));
  return found;
}

nb::list dense_snapshot(const Dense& dense) {
  auto all = [&] {
    WithoutGil release;
    return dense.snapshot();
  }();
  nb::list found;
  for (auto& [values, state] : all) found.append(nb::make_tuple(view_of(values), to_numpy(std::move(state))));
  return found;
}

std::size_t apply_dense(Dense& dense, nb::sequence updates, std::size_t num_pushes, bool skip_nonfinite) {
  std::vector<Dense::Update> found;
  std::vector<AnyArray> kept;
  for (nb::handle one : updates) {
    auto [group, lr, grads, absent] =
        nb::cast<std::tuple<std::size_t, double, nb::object, std::vector<std::size_t>>>(one);
    Dense::Update update{checked(dense, group), lr, {}, std::move(absent)};
    if (!std::is_sorted(update.absent.begin(), update.absent.end()) ||
        (!update.absent.empty() && update.absent.back() >= dense.num_parts(group))) {
      value_error("absent parts must be parts of dense group " + std::to_string(group) + ", ascending");
    }
    for (nb::handle each : grads) {
      kept.push_back(as_floats(each, "grads", dense.size(group)));
      update.grads.push_back(floats(kept.back()));
    }
    if (update.grads.empty()) value_error("dense group " + std::to_string(group) + " has no gradients");
    found.push_back(std::move(update));
  }
  WithoutGil release;
  return dense.apply(found, num_pushes, skip_nonfinite);
}

std::vector<const Gradients*> gradients_of(nb::sequence pushes) {
  std::vector<const Gradients*> found;
  for (nb::handle one : pushes) found.push_back(nb::cast<const Gradients*>(one));
  return found;
}

bool is_safe(const Holdings& holdings, nb::sequence pushes) {
  const std::vector<const Gradients*> step = gradients_of(pushes);
  WithoutGil release;
  return holdings.is_safe(step);
}

std::size_t apply(const Holdings& holdings, nb::sequence pushes, std::uint32_t time, std::size_t num_pushes,
                  double factor, std::vector<std::uint64_t> skip_shards) {
  if (!skip_shards.empty() && skip_shards.size() != holdings.num_tables()) value_error("skip_shards: one per table");
  const std::vector<const Gradients*> step = gradients_of(pushes);
  WithoutGil release;
  const trace::Here here(std::any_of(step.begin(), step.end(), [](const auto* one) { return one->is_traced; }));
  return holdings.apply(step, {time, num_pushes, factor, std::move(skip_shards)});
}

nb::list means(const Holdings& holdings, nb::sequence pushes, std::size_t num_pushes, double factor) {
  const std::vector<const Gradients*> step = gradients_of(pushes);
  nb::list found;
  for (const Dense::Update& one : holdings.dense_updates(step, factor)) {
    Array<float> mean = [&] {
      WithoutGil release;
      return Dense::mean(one, holdings.reader().job().groups[one.group].size, num_pushes);
    }();
    found.append(nb::make_tuple(one.group, one.lr, to_numpy(std::move(mean)), one.absent));
  }
  return found;
}

}  // namespace

void add_holdings(nb::module_& m) {
  nb::class_<Dense>(m, "Dense", "Dense parameters of one server; see _native.pyi.")
      .def(nb::new_(&make_dense), nb::arg("groups"))
      .def("start", &start, nb::arg("group"), nb::arg("values").none())
      .def("restore", &restore_dense, nb::arg("group"), nb::arg("values").none(), nb::arg("state").none())
      .def("read", &read_dense)
      .def("snapshot", &dense_snapshot)
      .def("apply", &apply_dense, nb::arg("updates"), nb::arg("num_pushes"), nb::arg("skip_nonfinite"));
  nb::class_<Holdings>(m, "PlaneHoldings", "What requests are about; see _native.pyi.")
      .def(nb::new_([](const std::vector<std::shared_ptr<Table>>& tables, const Reader& reader, nb::object dense,
                       bool skip_nonfinite) {
             auto shared = dense.is_none() ? nullptr : nb::cast<std::shared_ptr<Dense>>(dense);
             return std::make_shared<Holdings>(tables, reader, std::move(shared), skip_nonfinite);
           }),
           nb::arg("tables"), nb::arg("reader"), nb::arg("dense").none(), nb::arg("skip_nonfinite"))
      .def("is_safe", &is_safe, nb::arg("pushes"))
      .def("apply", &apply, nb::arg("pushes"), nb::arg("time"), nb::arg("num_pushes"), nb::arg("factor"),
           nb::arg("skip_shards"))
      .def("means", &means, nb::arg("pushes"), nb::arg("num_pushes"), nb::arg("factor"));
}

}  // namespace fleet::bind
