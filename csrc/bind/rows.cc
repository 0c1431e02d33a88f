#include "bind/rows.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "bind/arrays.h"

namespace fleet::bind {

namespace {

constexpr std::uint64_t kMaxWatchers = 1 << 20;

template <class T>
nb::object items_to_numpy(Items<T>&& values) {
  auto* kept = new Items<T>(std::move(values));
  const nb::capsule owner(kept, [](void* data) noexcept { delete static_cast<Items<T>*>(data); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

void put_marks(nb::dict& out, const std::string& prefix, Marks&& marks, bool has_clicks) {
  out[(prefix + "keys").c_str()] = items_to_numpy(std::move(marks.keys));
  out[(prefix + "seen").c_str()] = items_to_numpy(std::move(marks.seen));
  out[(prefix + "step").c_str()] = items_to_numpy(std::move(marks.step));
  if (!has_clicks) return;
  out[(prefix + "shows").c_str()] = items_to_numpy(std::move(marks.shows));
  out[(prefix + "clicks").c_str()] = items_to_numpy(std::move(marks.clicks));
}

// Keeps the arrays of a restore alive while the GIL is away.
struct Kept {
  std::vector<AnyArray> arrays;

  template <class T>
  const T* get(const nb::dict& rows, const std::string& name, std::vector<std::size_t> shape) {
    if (!rows.contains(name.c_str())) value_error("rows lack '" + name + "'");
    const nb::object object = rows[name.c_str()];
    arrays.push_back(as_array(object, name));
    return items<T>(arrays.back(), object, name, std::move(shape));
  }

  RowsView::MarksView marks(const nb::dict& rows, const std::string& prefix, bool has_clicks) {
    const std::string name = prefix + "keys";
    if (!rows.contains(name.c_str())) value_error("rows lack '" + name + "'");
    arrays.push_back(as_int64(rows[name.c_str()], name));
    RowsView::MarksView view{};
    view.keys = int64s(arrays.back());
    view.n = arrays.back().size();
    view.seen = get<std::uint32_t>(rows, prefix + "seen", {view.n});
    view.step = get<std::uint32_t>(rows, prefix + "step", {view.n});
    if (has_clicks) {
      view.shows = get<float>(rows, prefix + "shows", {view.n});
      view.clicks = get<float>(rows, prefix + "clicks", {view.n});
    }
    return view;
  }
};

nb::dict to_dict(const Table& table, Rows&& rows) {
  const Format& format = table.format();
  const std::size_t n = rows.marks.keys.size();
  const bool has_clicks = table.entry().has_clicks();
  nb::dict out;
  auto* values = new Items<std::byte>(std::move(rows.values));
  const nb::capsule value_owner(values, [](void* data) noexcept { delete static_cast<Items<std::byte>*>(data); });
  if (format.dtype == Dtype::kFloat32) {
    out["values"] =
        nb::cast(nb::ndarray<nb::numpy, float, nb::ndim<2>>(values->data(), {n, format.width}, value_owner));
  } else {
    out["values"] =
        nb::cast(nb::ndarray<nb::numpy, std::uint16_t, nb::ndim<2>>(values->data(), {n, format.width}, value_owner));
  }
  auto* state = new Items<float>(std::move(rows.state));
  const nb::capsule state_owner(state, [](void* data) noexcept { delete static_cast<Items<float>*>(data); });
  out["state"] =
      nb::cast(nb::ndarray<nb::numpy, float, nb::ndim<2>>(state->data(), {n, format.state_width}, state_owner));
  put_marks(out, "", std::move(rows.marks), has_clicks);
  put_marks(out, "waiting_", std::move(rows.waiting), has_clicks);
  return out;
}

struct Shards {
  Shards(nb::handle first_shard, nb::handle last_shard)
      : last(as_integer(last_shard, "last_shard", 0, Table::kShards)),
        first(as_integer(first_shard, "first_shard", 0, last)) {}

  std::size_t last, first;
};

}  // namespace

nb::dict dump(const Table& table, nb::handle first_shard, nb::handle last_shard) {
  const Shards shards(first_shard, last_shard);
  Rows rows;
  {
    WithoutGil release;
    rows = table.dump(shards.first, shards.last);
  }
  return to_dict(table, std::move(rows));
}

nb::dict dump_keys(const Table& table, nb::handle keys) {
  const AnyArray array = as_int64(keys, "keys");
  Rows rows;
  Items<std::int64_t> gone;
  {
    WithoutGil release;
    std::vector<std::int64_t> found;
    rows = table.dump_keys(int64s(array), array.size(), found);
    gone.assign(found.begin(), found.end());
  }
  nb::dict out = to_dict(table, std::move(rows));
  out["gone"] = items_to_numpy(std::move(gone));
  return out;
}

nb::tuple values_of(const Table& table, nb::handle keys) {
  const AnyArray array = as_int64(keys, "keys");
  const std::size_t n = array.size();
  Items<std::int64_t> own, none;
  auto* rows = new Items<float>();
  const nb::capsule owner(rows, [](void* data) noexcept { delete static_cast<Items<float>*>(data); });
  std::size_t num = 0;
  {
    WithoutGil release;
    std::vector<std::int64_t> gone;
    own.assign(int64s(array), int64s(array) + n);
    rows->resize(n * table.format().width);
    num = table.values_of(own.data(), n, rows->data(), gone);
    own.resize(num);
    none.assign(gone.begin(), gone.end());
  }
  return nb::make_tuple(
      items_to_numpy(std::move(own)),
      nb::cast(nb::ndarray<nb::numpy, float, nb::ndim<2>>(rows->data(), {num, table.format().width}, owner)),
      items_to_numpy(std::move(none)));
}

nb::tuple touched(Table& table, nb::handle watcher, bool forget) {
  const auto who = static_cast<std::size_t>(as_integer(watcher, "watcher", 0, kMaxWatchers));
  Items<std::int64_t> keys;
  bool is_known = true;
  {
    WithoutGil release;
    std::vector<std::int64_t> found;
    is_known = table.touched(who, forget, found);
    keys.assign(found.begin(), found.end());
  }
  return nb::make_tuple(items_to_numpy(std::move(keys)), !is_known);
}

void touch(Table& table, nb::handle watcher, nb::handle keys) {
  const auto who = static_cast<std::size_t>(as_integer(watcher, "watcher", 0, kMaxWatchers));
  if (keys.is_none()) {
    WithoutGil release;
    return table.touch_all(who);
  }
  const AnyArray array = as_int64(keys, "keys");
  WithoutGil release;
  table.touch(who, int64s(array), array.size());
}

void unwatch(Table& table, nb::handle watcher) {
  const auto who = static_cast<std::size_t>(as_integer(watcher, "watcher", 0, kMaxWatchers));
  WithoutGil release;
  table.unwatch(who);
}

nb::tuple seal(const Table& table, nb::handle first_shard, nb::handle last_shard, const std::string& folder,
               const std::string& prefix) {
  const Shards shards(first_shard, last_shard);
  std::vector<ShardFiles> all;
  Rows rows;
  {
    WithoutGil release;
    rows = table.seal(shards.first, shards.last, folder, prefix, all);
  }
  nb::list files;
  for (const ShardFiles& one : all) files.append(nb::make_tuple(one.shard, one.num_keys, one.names));
  nb::object on_disk = items_to_numpy(std::move(rows.on_disk));
  nb::dict out = to_dict(table, std::move(rows));
  out["on_disk"] = on_disk;
  return nb::make_tuple(files, out);
}

void attach(Table& table, nb::handle shard, nb::handle num_keys, const std::vector<std::string>& names,
            const std::string& folder) {
  ShardFiles files;
  files.shard = as_integer(shard, "shard", 0, Table::kShards - 1);
  files.num_keys = as_integer(num_keys, "num_keys", 0, std::numeric_limits<std::uint64_t>::max());
  files.names = names;
  WithoutGil release;
  table.attach(files, folder);
}

std::size_t restore_file(Table& table, const std::string& path, nb::handle server, nb::handle num_servers) {
  const auto servers = static_cast<std::uint32_t>(as_integer(num_servers, "num_servers", 1, kMaxServers));
  const auto own = static_cast<std::uint32_t>(as_integer(server, "server", 0, servers - 1));
  WithoutGil release;
  return table.restore_file(path, own, servers);
}

std::size_t restore(Table& table, nb::handle given, nb::handle server, nb::handle num_servers) {
  if (!nb::isinstance<nb::dict>(given)) type_error("rows must be a dict of arrays, got " + text(nb::inst_name(given)));
  const auto rows = nb::borrow<nb::dict>(given);
  const auto servers = static_cast<std::uint32_t>(as_integer(num_servers, "num_servers", 1, kMaxServers));
  const auto own = static_cast<std::uint32_t>(as_integer(server, "server", 0, servers - 1));
  const Format& format = table.format();
  Kept kept;
  RowsView view{};
  view.marks = kept.marks(rows, "", table.entry().has_clicks());
  view.waiting = kept.marks(rows, "waiting_", table.entry().has_clicks());
  const std::size_t n = view.marks.n;
  if (format.dtype == Dtype::kFloat32) {
    view.values = reinterpret_cast<const std::byte*>(kept.get<float>(rows, "values", {n, format.width}));
  } else {
    view.values = reinterpret_cast<const std::byte*>(kept.get<std::uint16_t>(rows, "values", {n, format.width}));
  }
  view.state = kept.get<float>(rows, "state", {n, format.state_width});
  if (rows.contains("on_disk")) {
    if (!table.has_disk()) value_error("rows of files are for a table that has some");
    view.on_disk = kept.get<std::uint8_t>(rows, "on_disk", {n});
  }
  WithoutGil release;
  return table.restore(view, own, servers);
}

}  // namespace fleet::bind
