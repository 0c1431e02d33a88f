#include "table/table.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "bind/arrays.h"
#include "bind/rows.h"
#include "disk/file.h"
#include "table/finite.h"
#include "table/summed.h"

namespace fleet::bind {

namespace {

using Args = std::map<std::string, double>;

constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();

std::uint32_t as_step(nb::handle step, const std::string& name) {
  return static_cast<std::uint32_t>(as_integer(step, name, 0, std::numeric_limits<std::uint32_t>::max()));
}

// One item for each key, or null for None. `kept` holds the memory.
template <class T>
const T* for_each_key(nb::handle object, const std::string& name, std::size_t n, AnyArray& kept) {
  if (object.is_none()) return nullptr;
  kept = as_array(object, name);
  return items<T>(kept, object, name, {n});
}

std::unique_ptr<Table> make_table(const std::string& name, nb::handle width, const std::string& rule,
                                  const Args& rule_args, const std::string& initializer, const Args& initializer_args,
                                  const std::string& entry, const Args& entry_args, const std::string& dtype,
                                  const std::optional<std::pair<float, float>>& bounds, nb::handle max_bytes,
                                  nb::handle seed, const std::optional<double>& max_norm,
                                  const std::optional<double>& norm_type, nb::handle memory_bytes,
                                  const std::string& folder) {
  const std::string who = "table '" + name + "': ";
  TableOptions options;
  options.name = name;
  options.width = as_integer(width, who + "width", 1, Table::kMaxWidth);
  options.rule = make_rule(rule, rule_args);
  options.initializer = make_initializer(initializer, initializer_args);
  options.entry = Entry(entry, entry_args);
  options.dtype = dtype_of(dtype);
  options.has_bounds = bounds.has_value();
  if (bounds) std::tie(options.low, options.high) = *bounds;
  options.max_bytes = as_integer(max_bytes, who + "max_bytes", 0, kAny);
  options.seed = as_integer(seed, who + "seed", 0, kAny);
  options.has_max_norm = max_norm.has_value();
  options.max_norm = max_norm.value_or(0);
  options.norm_type = norm_type.value_or(std::numeric_limits<double>::infinity());
  options.memory_bytes = as_integer(memory_bytes, who + "memory_bytes", 0, kAny);
  options.folder = folder;
  return std::make_unique<Table>(std::move(options));
}

nb::object pull(const Table& table, nb::handle keys, bool zeros) {
  const AnyArray array = as_int64(keys, "keys");
  const std::size_t width = table.format().width;
  fleet::Array<float> out;
  {
    WithoutGil release;
    out = fleet::Array<float>(array.size() * width);
    table.pull(int64s(array), array.size(), out.data(), zeros ? Table::Missing::kZeros : Table::Missing::kFirst);
  }
  return to_numpy(std::move(out), array.size(), width);
}

void pull_to(const Table& table, nb::handle keys, nb::handle rows, bool zeros) {
  const AnyArray array = as_int64(keys, "keys"), row_array = as_array(rows, "rows");
  items<float>(row_array, rows, "rows", {array.size(), table.format().width});
  auto* data = static_cast<float*>(writable(rows, "rows", row_array));
  WithoutGil release;
  table.pull(int64s(array), array.size(), data, zeros ? Table::Missing::kZeros : Table::Missing::kFirst);
}

nb::object find(const Table& table, nb::handle keys) {
  const AnyArray array = as_int64(keys, "keys");
  fleet::Array<std::uint8_t> out(array.size());
  {
    WithoutGil release;
    table.find(int64s(array), array.size(), out.data());
  }
  return to_numpy(std::move(out));
}

std::size_t assign(Table& table, nb::handle keys, nb::handle values, nb::handle step, nb::handle skip_shards) {
  const AnyArray array = as_int64(keys, "keys");
  const AnyArray value_array = as_array(values, "values");
  const float* data = items<float>(value_array, values, "values", {array.size(), table.format().width});
  const std::uint32_t at_step = as_step(step, "step");
  const std::uint64_t skipped = as_integer(skip_shards, "skip_shards", 0, kAny);
  WithoutGil release;
  return table.assign(int64s(array), array.size(), data, at_step, skipped);
}

// The memory of [n, record_words] int32.
const std::int32_t* record_items(const Table& table, const AnyArray& array, nb::handle object, std::size_t n) {
  if (!table.has_records()) {
    value_error("table '" + table.options().name + "' has no records: they are for float32 rows in memory, no clicks");
  }
  return items<std::int32_t>(array, object, "records", {n, table.record_words()});
}

void read(const Table& table, nb::handle keys, nb::handle records) {
  const AnyArray array = as_int64(keys, "keys"), record_array = as_array(records, "records");
  record_items(table, record_array, records, array.size());
  auto* data = static_cast<std::uint32_t*>(writable(records, "records", record_array));
  WithoutGil release;
  table.read(int64s(array), array.size(), data);
}

void write(Table& table, nb::handle keys, nb::handle records) {
  const AnyArray array = as_int64(keys, "keys"), record_array = as_array(records, "records");
  const std::int32_t* data = record_items(table, record_array, records, array.size());
  WithoutGil release;
  table.write(int64s(array), array.size(), reinterpret_cast<const std::uint32_t*>(data));
}

// A push as Python says it; holds the memory of its arrays.
struct Given {
  Given(std::size_t width, nb::handle key_object, nb::handle grad_object, nb::handle step, nb::handle lr,
        nb::handle count_object, nb::handle show_object, nb::handle click_object, nb::handle scale, bool skip_nonfinite)
      : keys(as_int64(key_object, "keys")), grads(as_array(grad_object, "grads")) {
    push.keys = int64s(keys);
    push.n = keys.size();
    push.grads = items<float>(grads, grad_object, "grads", {push.n, width});
    push.counts = for_each_key<std::uint32_t>(count_object, "counts", push.n, counts);
    push.shows = for_each_key<float>(show_object, "shows", push.n, shows);
    push.clicks = for_each_key<float>(click_object, "clicks", push.n, clicks);
    push.step = as_step(step, "step");
    push.lr = as_number(lr, "lr");
    push.scale = static_cast<float>(as_number(scale, "scale"));
    push.skip_nonfinite = skip_nonfinite;
  }

  AnyArray keys, grads, counts, shows, clicks;
  Push push{};
};

nb::dict counts_of(const Pushed& done) {
  nb::dict result;
  result["created"] = done.created;
  result["waiting"] = done.waiting;
  result["skipped"] = done.skipped;
  result["evicted"] = done.evicted;
  return result;
}

// The pushes of one step: a sequence of (keys, grads, counts, shows, clicks).
struct GivenAll {
  GivenAll(std::size_t width, nb::handle pushes, nb::handle step, nb::handle lr, nb::handle scale,
           bool skip_nonfinite) {
    if (!nb::isinstance<nb::sequence>(pushes)) {
      type_error("pushes must be a sequence of (keys, grads, counts, shows, clicks), got " +
                 text(nb::inst_name(pushes)));
    }
    for (nb::handle one : pushes) {
      if (!nb::isinstance<nb::tuple>(one) || nb::len(one) != 5) {
        type_error("pushes[" + std::to_string(given.size()) +
                   "] must be a tuple of keys, grads, counts, shows, clicks");
      }
      given.emplace_back(width, one[0], one[1], step, lr, one[2], one[3], one[4], scale, skip_nonfinite);
      list.push_back(given.back().push);
    }
  }

  std::vector<Given> given;
  std::vector<Push> list;
};

nb::dict push_all(Table& table, nb::handle pushes, nb::handle step, nb::handle lr, nb::handle scale,
                  bool skip_nonfinite, nb::handle skip_shards) {
  GivenAll all(table.format().width, pushes, step, lr, scale, skip_nonfinite);
  for (Push& one : all.list) one.skip_shards = as_integer(skip_shards, "skip_shards", 0, kAny);
  Pushed done;
  {
    WithoutGil release;
    done = table.push_all(all.list.data(), all.list.size());
  }
  return counts_of(done);
}

void check_all(const Table& table, nb::handle pushes, nb::handle step, nb::handle lr, nb::handle scale,
               bool skip_nonfinite) {
  const GivenAll all(table.format().width, pushes, step, lr, scale, skip_nonfinite);
  WithoutGil release;
  table.check_all(all.list.data(), all.list.size());
}

template <class T, class Items>
nb::object copied(const Items* from, std::size_t n, std::size_t width = 0) {
  if (from == nullptr) return nb::none();
  const std::size_t size = n * std::max<std::size_t>(width, 1);
  fleet::Array<T> copy(size);
  std::copy_n(from, size, copy.data());
  return width == 0 ? to_numpy(std::move(copy)) : to_numpy(std::move(copy), n, width);
}

nb::tuple sum_pushes(nb::handle pushes, std::size_t width) {
  const GivenAll all(width, pushes, nb::int_(0), nb::float_(0.0), nb::float_(1.0), false);
  if (all.list.empty()) value_error("pushes must not be empty");
  std::unique_ptr<Summed> summed;
  {
    WithoutGil release;
    summed = std::make_unique<Summed>(all.list.data(), all.list.size(), width, false);
  }
  const Push& one = summed->push();
  return nb::make_tuple(copied<std::int64_t>(one.keys, one.n), copied<float>(one.grads, one.n, width),
                        copied<std::uint32_t>(one.counts, one.n), copied<float>(one.shows, one.n),
                        copied<float>(one.clicks, one.n));
}

nb::dict push(Table& table, nb::handle keys, nb::handle grads, nb::handle step, nb::handle lr, nb::handle counts,
              nb::handle shows, nb::handle clicks, nb::handle scale, bool skip_nonfinite, nb::handle skip_shards) {
  Given given(table.format().width, keys, grads, step, lr, counts, shows, clicks, scale, skip_nonfinite);
  given.push.skip_shards = as_integer(skip_shards, "skip_shards", 0, kAny);
  Pushed done;
  {
    WithoutGil release;
    done = table.push(given.push);
  }
  return counts_of(done);
}

void check(const Table& table, nb::handle keys, nb::handle grads, nb::handle step, nb::handle lr, nb::handle counts,
           nb::handle shows, nb::handle clicks, nb::handle scale, bool skip_nonfinite) {
  const Given given(table.format().width, keys, grads, step, lr, counts, shows, clicks, scale, skip_nonfinite);
  WithoutGil release;
  table.check(given.push);
}

ShrinkRule shrink_rule(const Table& table, nb::handle now, nb::handle unseen_steps, nb::handle score_below,
                       nb::handle decay, nb::handle skip_shards) {
  ShrinkRule rule;
  rule.now = as_step(now, "now");
  rule.unseen_steps = as_step(unseen_steps, "unseen_steps");
  rule.use_score = !score_below.is_none();
  if (rule.use_score) rule.score_below = as_number(score_below, "score_below");
  rule.decay = as_number(decay, "decay");
  rule.skip_shards = as_integer(skip_shards, "skip_shards", 0, kAny);
  if (rule.decay < 0 || rule.decay > 1) value_error("decay must be in 0..1, got " + text(nb::str(decay)));
  if ((rule.use_score || rule.decay != 0) && !table.entry().has_clicks()) {
    value_error("table '" + table.options().name + "' counts no shows and clicks, so its rows have no score; " +
                "declare it with ShowClickEntry, or shrink by unseen steps");
  }
  return rule;
}

std::size_t shrink(Table& table, nb::handle now, nb::handle unseen_steps, nb::handle score_below, nb::handle decay,
                   nb::handle skip_shards) {
  const ShrinkRule rule = shrink_rule(table, now, unseen_steps, score_below, decay, skip_shards);
  WithoutGil release;
  return table.shrink(rule);
}

nb::tuple erase(Table& table, nb::handle keys, nb::handle skip_shards) {
  const AnyArray array = as_int64(keys, "keys");
  const std::uint64_t skip = as_integer(skip_shards, "skip_shards", 0, kAny);
  Erased erased;
  {
    WithoutGil release;
    erased = table.erase(int64s(array), array.size(), skip);
  }
  return nb::make_tuple(erased.rows, erased.waiting);
}

nb::object doomed(const Table& table, nb::handle now, nb::handle unseen_steps, nb::handle score_below,
                  nb::handle decay) {
  const ShrinkRule rule = shrink_rule(table, now, unseen_steps, score_below, decay, nb::int_(0));
  fleet::Array<std::int64_t> out;
  {
    WithoutGil release;
    const std::vector<std::int64_t> keys = table.doomed(rule);
    out = fleet::Array<std::int64_t>(keys.size());
    std::copy(keys.begin(), keys.end(), out.data());
  }
  return to_numpy(std::move(out));
}

nb::dict tier_counts(const Table& table) {
  TierCounts counts;
  {
    WithoutGil release;
    counts = table.tier_counts();
  }
  nb::dict result;
  result["hot_rows"] = counts.hot_rows;
  result["cold_rows"] = counts.cold_rows;
  result["files"] = counts.files;
  result["disk_bytes"] = counts.disk_bytes;
  result["index_bytes"] = counts.index_bytes;
  result["reads"] = counts.reads;
  result["brought_rows"] = counts.brought_rows;
  result["spilled_rows"] = counts.spilled_rows;
  result["written_rows"] = counts.written_rows;
  result["merged_rows"] = counts.merged_rows;
  return result;
}

// Of any shape.
AnyArray as_values(nb::handle values) {
  AnyArray array = as_array(values, "values");
  if (array.dtype() != nb::dtype<float>()) type_error("values must be float32, got " + dtype_text(values));
  return array;
}

bool finite(nb::handle values) {
  const AnyArray array = as_values(values);
  WithoutGil release;
  return all_finite(static_cast<const float*>(array.data()), array.size());
}

float largest_of(nb::handle values) {
  const AnyArray array = as_values(values);
  WithoutGil release;
  return largest(static_cast<const float*>(array.data()), array.size());
}

}  // namespace

void add_table(nb::module_& m) {
  m.def("sum_pushes", &sum_pushes, nb::arg("pushes").none(), nb::arg("width"));
  nb::register_exception_translator([](const std::exception_ptr& error, void*) {
    try {
      std::rethrow_exception(error);
    } catch (const disk::DiskError& told) {
      const nb::object made = nb::borrow(PyExc_OSError)(told.code, told.what());
      PyErr_SetObject(PyExc_OSError, made.ptr());
    }
  });
  m.def("all_finite", &finite, nb::arg("values").none(), "Whether no value is a NaN or an Inf.");
  m.def("largest", &largest_of, nb::arg("values").none(), "The largest magnitude; Inf also for a NaN.");
  nb::class_<Table>(m, "Table", "Rows by int64 key; see _native.pyi.")
      .def(nb::new_(&make_table), nb::arg("name"), nb::arg("width").none(), nb::arg("rule"), nb::arg("rule_args"),
           nb::arg("initializer"), nb::arg("initializer_args"), nb::arg("entry"), nb::arg("entry_args"),
           nb::arg("dtype") = "float32", nb::arg("bounds").none() = nb::none(), nb::arg("max_bytes").none() = 0,
           nb::arg("seed").none() = 0, nb::arg("max_norm").none() = nb::none(), nb::arg("norm_type").none() = 2.0,
           nb::arg("memory_bytes").none() = 0, nb::arg("folder") = "")
      .def("pull", &pull, nb::arg("keys").none(), nb::arg("zeros") = false)
      .def("pull_to", &pull_to, nb::arg("keys").none(), nb::arg("rows").none(), nb::arg("zeros") = false)
      .def("push", &push, nb::arg("keys").none(), nb::arg("grads").none(), nb::kw_only(), nb::arg("step").none(),
           nb::arg("lr").none(), nb::arg("counts").none() = nb::none(), nb::arg("shows").none() = nb::none(),
           nb::arg("clicks").none() = nb::none(), nb::arg("scale").none() = 1.0f, nb::arg("skip_nonfinite") = false,
           nb::arg("skip_shards").none() = 0)
      .def("check", &check, nb::arg("keys").none(), nb::arg("grads").none(), nb::kw_only(), nb::arg("step").none(),
           nb::arg("lr").none(), nb::arg("counts").none() = nb::none(), nb::arg("shows").none() = nb::none(),
           nb::arg("clicks").none() = nb::none(), nb::arg("scale").none() = 1.0f, nb::arg("skip_nonfinite") = false)
      .def("push_all", &push_all, nb::arg("pushes").none(), nb::kw_only(), nb::arg("step").none(), nb::arg("lr").none(),
           nb::arg("scale").none() = 1.0f, nb::arg("skip_nonfinite") = false, nb::arg("skip_shards").none() = 0)
      .def("check_all", &check_all, nb::arg("pushes").none(), nb::kw_only(), nb::arg("step").none(),
           nb::arg("lr").none(), nb::arg("scale").none() = 1.0f, nb::arg("skip_nonfinite") = false)
      .def("find", &find, nb::arg("keys").none())
      .def("assign", &assign, nb::arg("keys").none(), nb::arg("values").none(), nb::kw_only(),
           nb::arg("step").none() = 0, nb::arg("skip_shards").none() = 0)
      .def("read", &read, nb::arg("keys").none(), nb::arg("records").none())
      .def("write", &write, nb::arg("keys").none(), nb::arg("records").none())
      .def_prop_ro("record_words", &Table::record_words)
      .def("shrink", &shrink, nb::kw_only(), nb::arg("now").none(), nb::arg("unseen_steps").none() = 0,
           nb::arg("score_below").none() = nb::none(), nb::arg("decay").none() = 0.0, nb::arg("skip_shards").none() = 0)
      .def("erase", &erase, nb::arg("keys").none(), nb::kw_only(), nb::arg("skip_shards").none() = 0)
      .def("doomed", &doomed, nb::kw_only(), nb::arg("now").none(), nb::arg("unseen_steps").none() = 0,
           nb::arg("score_below").none() = nb::none(), nb::arg("decay").none() = 0.0)
      .def("export", &dump, nb::arg("first_shard").none(), nb::arg("last_shard").none())
      .def("export_keys", &dump_keys, nb::arg("keys").none())
      .def("values_of", &values_of, nb::arg("keys").none())
      .def("watch", &Table::watch, nb::call_guard<WithoutGil>())
      .def("unwatch", &unwatch, nb::arg("watcher").none())
      .def("touched", &touched, nb::arg("watcher").none(), nb::arg("forget"))
      .def("touch", &touch, nb::arg("watcher").none(), nb::arg("keys").none())
      .def("import_", &restore, nb::arg("rows").none(), nb::arg("server").none(), nb::arg("num_servers").none())
      .def("seal", &seal, nb::arg("first_shard").none(), nb::arg("last_shard").none(), nb::arg("folder"),
           nb::arg("prefix") = "")
      .def("import_file", &restore_file, nb::arg("path"), nb::arg("server").none(), nb::arg("num_servers").none())
      .def("refuse_if_full", &Table::refuse_if_full, nb::call_guard<WithoutGil>())
      .def("attach", &attach, nb::arg("shard").none(), nb::arg("num_keys").none(), nb::arg("names"), nb::arg("folder"))
      .def("tier_counts", &tier_counts)
      .def("clear", &Table::clear, nb::call_guard<WithoutGil>())
      .def("__len__", &Table::size, nb::call_guard<WithoutGil>())
      .def_prop_ro("num_waiting", &Table::num_waiting, nb::call_guard<WithoutGil>())
      .def_prop_ro("newest_step", &Table::newest_step, nb::call_guard<WithoutGil>())
      .def_prop_ro("memory_bytes", &Table::bytes, nb::call_guard<WithoutGil>())
      .def_prop_ro("all_bytes", &Table::all_bytes, nb::call_guard<WithoutGil>())
      .def_prop_ro("has_disk", &Table::has_disk)
      .def_prop_ro("name", [](const Table& table) { return table.options().name; })
      .def_prop_ro("width", [](const Table& table) { return table.format().width; })
      .def_prop_ro("state_width", [](const Table& table) { return table.format().state_width; })
      .def_prop_ro("has_clicks", [](const Table& table) { return table.entry().has_clicks(); })
      .def_prop_ro("counts", [](const Table& table) { return table.entry().counts(); })
      .def_prop_ro_static("num_shards", [](nb::handle) { return Table::kShards; });
}

}  // namespace fleet::bind
