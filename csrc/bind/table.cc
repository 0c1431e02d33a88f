#include "table/table.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <cstring>
#include <optional>
#include <vector>

#include "bind/arrays.h"
#include "table/finite.h"

namespace fleet::bind {

namespace {

using Args = std::map<std::string, double>;

// An array of n (or n x width) items of one type.
template <class T>
const T* items(const AnyArray& array, nb::handle object, const std::string& name, std::size_t n, std::size_t width,
               bool has_width) {
  if (array.dtype() != nb::dtype<T>()) {
    type_error(name + " must be " +
               (std::is_same_v<T, float>           ? "float32"
                : std::is_same_v<T, std::uint32_t> ? "uint32"
                                                   : "uint16") +
               ", got " + dtype_text(object));
  }
  const bool fits = has_width ? array.ndim() == 2 && array.shape(0) == n && array.shape(1) == width
                              : array.ndim() == 1 && array.shape(0) == n;
  if (!fits) {
    std::string shape;
    for (std::size_t d = 0; d < array.ndim(); ++d) shape += (d == 0 ? "" : ", ") + std::to_string(array.shape(d));
    value_error(name + " must have shape [" + std::to_string(n) + (has_width ? ", " + std::to_string(width) : "") +
                "], got [" + shape + "]");
  }
  return static_cast<const T*>(array.data());
}

template <class T>
nb::object vector_to_numpy(std::vector<T>&& values) {
  auto* kept = new std::vector<T>(std::move(values));
  const nb::capsule owner(kept, [](void* data) noexcept { delete static_cast<std::vector<T>*>(data); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

std::unique_ptr<Table> make_table(const std::string& name, std::size_t width, const std::string& rule,
                                  const Args& rule_args, const std::string& initializer, const Args& initializer_args,
                                  const std::string& entry, const Args& entry_args, const std::string& dtype,
                                  const std::optional<std::pair<float, float>>& bounds, std::size_t max_bytes,
                                  std::uint64_t seed) {
  if (width == 0) value_error("table '" + name + "': width must be >= 1");
  TableOptions options;
  options.name = name;
  options.width = width;
  options.rule = make_rule(rule, rule_args);
  options.initializer = make_initializer(initializer, initializer_args);
  options.entry = Entry(entry, entry_args);
  options.dtype = dtype_of(dtype);
  options.has_bounds = bounds.has_value();
  if (bounds) std::tie(options.low, options.high) = *bounds;
  options.max_bytes = max_bytes;
  options.seed = seed;
  return std::make_unique<Table>(std::move(options));
}

nb::object pull(const Table& table, nb::handle keys) {
  const AnyArray array = as_int64(keys, "keys");
  const std::size_t width = table.format().width;
  fleet::Array<float> out;
  {
    nb::gil_scoped_release release;
    out = fleet::Array<float>(array.size() * width);
    table.pull(int64s(array), array.size(), out.data());
  }
  return to_numpy(std::move(out), array.size(), width);
}

nb::object find(const Table& table, nb::handle keys) {
  const AnyArray array = as_int64(keys, "keys");
  fleet::Array<std::uint8_t> out(array.size());
  {
    nb::gil_scoped_release release;
    table.find(int64s(array), array.size(), out.data());
  }
  return to_numpy(std::move(out));
}

void assign(Table& table, nb::handle keys, nb::handle values) {
  const AnyArray array = as_int64(keys, "keys");
  const AnyArray value_array = as_array(values, "values");
  const float* data = items<float>(value_array, values, "values", array.size(), table.format().width, true);
  nb::gil_scoped_release release;
  table.assign(int64s(array), array.size(), data);
}

nb::dict push(Table& table, nb::handle keys, nb::handle grads, std::uint32_t step, double lr, nb::handle counts,
              nb::handle shows, nb::handle clicks, float scale, bool skip_nonfinite) {
  const AnyArray key_array = as_int64(keys, "keys");
  const std::size_t n = key_array.size();
  const AnyArray grad_array = as_array(grads, "grads");
  Push request{};
  request.keys = int64s(key_array);
  request.n = n;
  request.grads = items<float>(grad_array, grads, "grads", n, table.format().width, true);
  AnyArray count_array, show_array, click_array;
  if (!counts.is_none()) {
    count_array = as_array(counts, "counts");
    request.counts = items<std::uint32_t>(count_array, counts, "counts", n, 1, false);
  }
  if (!shows.is_none()) {
    show_array = as_array(shows, "shows");
    request.shows = items<float>(show_array, shows, "shows", n, 1, false);
  }
  if (!clicks.is_none()) {
    click_array = as_array(clicks, "clicks");
    request.clicks = items<float>(click_array, clicks, "clicks", n, 1, false);
  }
  request.step = step;
  request.lr = lr;
  request.scale = scale;
  request.skip_nonfinite = skip_nonfinite;
  Pushed done;
  {
    nb::gil_scoped_release release;
    done = table.push(request);
  }
  nb::dict result;
  result["created"] = done.created;
  result["waiting"] = done.waiting;
  result["skipped"] = done.skipped;
  result["evicted"] = done.evicted;
  return result;
}

void put_marks(nb::dict& out, const std::string& prefix, Marks&& marks, bool has_clicks) {
  out[(prefix + "keys").c_str()] = vector_to_numpy(std::move(marks.keys));
  out[(prefix + "seen").c_str()] = vector_to_numpy(std::move(marks.seen));
  out[(prefix + "step").c_str()] = vector_to_numpy(std::move(marks.step));
  if (!has_clicks) return;
  out[(prefix + "shows").c_str()] = vector_to_numpy(std::move(marks.shows));
  out[(prefix + "clicks").c_str()] = vector_to_numpy(std::move(marks.clicks));
}

nb::dict dump(const Table& table, std::size_t first_shard, std::size_t last_shard) {
  if (first_shard > last_shard || last_shard > Table::kShards) {
    value_error("shards must be in 0.." + std::to_string(Table::kShards) + ", first before last");
  }
  Rows rows;
  {
    nb::gil_scoped_release release;
    rows = table.dump(first_shard, last_shard);
  }
  const Format& format = table.format();
  const std::size_t n = rows.marks.keys.size();
  const bool has_clicks = table.entry().has_clicks();
  nb::dict out;
  auto* values = new std::vector<std::byte>(std::move(rows.values));
  const nb::capsule value_owner(values, [](void* data) noexcept { delete static_cast<std::vector<std::byte>*>(data); });
  if (format.dtype == Dtype::kFloat32) {
    out["values"] =
        nb::cast(nb::ndarray<nb::numpy, float, nb::ndim<2>>(values->data(), {n, format.width}, value_owner));
  } else {
    out["values"] =
        nb::cast(nb::ndarray<nb::numpy, std::uint16_t, nb::ndim<2>>(values->data(), {n, format.width}, value_owner));
  }
  auto* state = new std::vector<float>(std::move(rows.state));
  const nb::capsule state_owner(state, [](void* data) noexcept { delete static_cast<std::vector<float>*>(data); });
  out["state"] =
      nb::cast(nb::ndarray<nb::numpy, float, nb::ndim<2>>(state->data(), {n, format.state_width}, state_owner));
  put_marks(out, "", std::move(rows.marks), has_clicks);
  put_marks(out, "waiting_", std::move(rows.waiting), has_clicks);
  return out;
}

// Keeps the arrays of a restore alive while the GIL is away.
struct Kept {
  std::vector<AnyArray> arrays;

  template <class T>
  const T* get(const nb::dict& rows, const std::string& name, std::size_t n, std::size_t width, bool has_width) {
    if (!rows.contains(name.c_str())) value_error("rows lack '" + name + "'");
    const nb::object object = rows[name.c_str()];
    arrays.push_back(as_array(object, name));
    return items<T>(arrays.back(), object, name, n, width, has_width);
  }

  RowsView::MarksView marks(const nb::dict& rows, const std::string& prefix, bool has_clicks) {
    const std::string name = prefix + "keys";
    if (!rows.contains(name.c_str())) value_error("rows lack '" + name + "'");
    arrays.push_back(as_int64(rows[name.c_str()], name));
    RowsView::MarksView view{};
    view.keys = int64s(arrays.back());
    view.n = arrays.back().size();
    view.seen = get<std::uint32_t>(rows, prefix + "seen", view.n, 1, false);
    view.step = get<std::uint32_t>(rows, prefix + "step", view.n, 1, false);
    if (has_clicks) {
      view.shows = get<float>(rows, prefix + "shows", view.n, 1, false);
      view.clicks = get<float>(rows, prefix + "clicks", view.n, 1, false);
    }
    return view;
  }
};

std::size_t restore(Table& table, const nb::dict& rows, std::uint32_t server, std::uint32_t num_servers) {
  if (num_servers < 1 || num_servers > kMaxServers || server >= num_servers) {
    value_error("server must be below num_servers, got " + std::to_string(server) + " of " +
                std::to_string(num_servers));
  }
  const Format& format = table.format();
  Kept kept;
  RowsView view{};
  view.marks = kept.marks(rows, "", table.entry().has_clicks());
  view.waiting = kept.marks(rows, "waiting_", table.entry().has_clicks());
  const std::size_t n = view.marks.n;
  if (format.dtype == Dtype::kFloat32) {
    view.values = reinterpret_cast<const std::byte*>(kept.get<float>(rows, "values", n, format.width, true));
  } else {
    view.values = reinterpret_cast<const std::byte*>(kept.get<std::uint16_t>(rows, "values", n, format.width, true));
  }
  view.state = kept.get<float>(rows, "state", n, format.state_width, true);
  nb::gil_scoped_release release;
  return table.restore(view, server, num_servers);
}

std::size_t shrink(Table& table, std::uint32_t now, std::uint32_t unseen_steps,
                   const std::optional<double>& score_below, double decay) {
  if ((score_below || decay != 0) && !table.entry().has_clicks()) {
    value_error("table '" + table.options().name + "' counts no shows and clicks, so its rows have no score; " +
                "declare it with ShowClickEntry, or shrink by unseen steps");
  }
  nb::gil_scoped_release release;
  return table.shrink({now, unseen_steps, score_below.has_value(), score_below.value_or(0), decay});
}

bool finite(nb::handle values) {
  const AnyArray array = as_array(values, "values");
  if (array.dtype() != nb::dtype<float>()) type_error("values must be float32, got " + dtype_text(values));
  nb::gil_scoped_release release;
  return all_finite(static_cast<const float*>(array.data()), array.size());
}

}  // namespace

void add_table(nb::module_& m) {
  m.def("all_finite", &finite, nb::arg("values").none(), "Whether no value is a NaN or an Inf.");
  nb::class_<Table>(m, "Table", "Rows by int64 key; see _native.pyi.")
      .def(nb::new_(&make_table), nb::arg("name"), nb::arg("width"), nb::arg("rule"), nb::arg("rule_args"),
           nb::arg("initializer"), nb::arg("initializer_args"), nb::arg("entry"), nb::arg("entry_args"),
           nb::arg("dtype") = "float32", nb::arg("bounds").none() = nb::none(), nb::arg("max_bytes") = 0,
           nb::arg("seed") = 0)
      .def("pull", &pull, nb::arg("keys").none())
      .def("push", &push, nb::arg("keys").none(), nb::arg("grads").none(), nb::kw_only(), nb::arg("step"),
           nb::arg("lr"), nb::arg("counts").none() = nb::none(), nb::arg("shows").none() = nb::none(),
           nb::arg("clicks").none() = nb::none(), nb::arg("scale") = 1.0f, nb::arg("skip_nonfinite") = false)
      .def("find", &find, nb::arg("keys").none())
      .def("assign", &assign, nb::arg("keys").none(), nb::arg("values").none())
      .def("shrink", &shrink, nb::kw_only(), nb::arg("now"), nb::arg("unseen_steps") = 0,
           nb::arg("score_below").none() = nb::none(), nb::arg("decay") = 0.0)
      .def("export", &dump, nb::arg("first_shard"), nb::arg("last_shard"))
      .def("import_", &restore, nb::arg("rows"), nb::arg("server"), nb::arg("num_servers"))
      .def("clear", &Table::clear, nb::call_guard<nb::gil_scoped_release>())
      .def("__len__", &Table::size, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("num_waiting", &Table::num_waiting, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("memory_bytes", &Table::bytes, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("name", [](const Table& table) { return table.options().name; })
      .def_prop_ro("width", [](const Table& table) { return table.format().width; })
      .def_prop_ro("state_width", [](const Table& table) { return table.format().state_width; })
      .def_prop_ro("has_clicks", [](const Table& table) { return table.entry().has_clicks(); })
      .def_prop_ro("counts", [](const Table& table) { return table.entry().counts(); })
      .def_prop_ro_static("num_shards", [](nb::handle) { return Table::kShards; });
}

}  // namespace fleet::bind
