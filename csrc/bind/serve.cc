#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "bind/arrays.h"
#include "disk/file.h"
#include "serve/base.h"
#include "serve/tables.h"

namespace fleet::bind {

namespace {

using serve::Base;
using serve::BaseWriter;
using serve::Tables;

constexpr std::size_t kMostWidth = std::size_t{1} << 20;

template <class Call>
auto told(Call&& call) {
  try {
    return call();
  } catch (const disk::DiskError& error) {
    PyErr_SetString(PyExc_OSError, error.what());
    throw nb::python_error();
  }
}

// A base as Python holds it.
struct ServedBase {
  std::shared_ptr<const Base> base;
};

ServedBase open_base(const std::string& path, bool in_memory) {
  std::shared_ptr<const Base> base;
  told([&] {
    const WithoutGil release;
    base = Base::open(path, in_memory);
  });
  return {std::move(base)};
}

std::unique_ptr<BaseWriter> make_writer(const std::string& path, nb::handle width, nb::handle format, nb::handle size,
                                        nb::handle memory_bytes) {
  const std::size_t row = as_integer(width, "width", 1, kMostWidth);
  const auto as = static_cast<WireFormat>(as_integer(format, "format", 0, kNumFormats - 1));
  const std::size_t rows = as_integer(size, "size", 0, Base::kNone - 1);
  const std::size_t memory = as_integer(memory_bytes, "memory_bytes", 1, std::size_t{1} << 62);
  return told([&] { return std::make_unique<BaseWriter>(path, row, as, rows, memory); });
}

void count(BaseWriter& writer, nb::handle keys) {
  const AnyArray array = as_int64(keys, "keys");
  const WithoutGil release;
  writer.count(int64s(array), array.size());
}

void add(BaseWriter& writer, nb::handle keys, nb::handle rows) {
  const AnyArray array = as_int64(keys, "keys"), row_array = as_array(rows, "rows");
  const float* data = items<float>(row_array, rows, "rows", {array.size(), writer.width()});
  const WithoutGil release;
  writer.add(int64s(array), array.size(), data);
}

bool next_pass(BaseWriter& writer) {
  bool is_there = false;
  told([&] {
    const WithoutGil release;
    is_there = writer.next_pass();
  });
  return is_there;
}

void finish(BaseWriter& writer) {
  told([&] {
    const WithoutGil release;
    writer.finish();
  });
}

std::unique_ptr<Tables> make_tables(const std::vector<ServedBase>& bases, nb::handle numbers) {
  const AnyArray array = as_int64(numbers, "numbers");
  std::vector<std::shared_ptr<const Base>> held;
  for (const ServedBase& one : bases) held.push_back(one.base);
  return std::make_unique<Tables>(std::move(held),
                                  std::vector<std::int64_t>(int64s(array), int64s(array) + array.size()));
}

nb::object numbers_of(const std::vector<std::int64_t>& numbers) {
  fleet::Array<std::int64_t> out(numbers.size());
  std::copy(numbers.begin(), numbers.end(), out.data());
  return to_numpy(std::move(out));
}

std::size_t table_of(const Tables& tables, nb::handle table) {
  if (tables.num_tables() == 0) value_error("there are no tables");
  return as_integer(table, "table", 0, tables.num_tables() - 1);
}

// ([(rows, places of keys without a row) for each table], numbers)
nb::tuple look_up(const Tables& tables, nb::sequence wanted) {
  std::vector<AnyArray> keys;
  std::vector<Tables::Wanted> asked;
  for (const nb::handle one : wanted) {
    if (!nb::isinstance<nb::tuple>(one) || nb::len(one) != 2) type_error("wanted must have tuples (table, keys)");
    const auto both = nb::borrow<nb::tuple>(one);
    const std::size_t table = table_of(tables, both[0]);
    keys.push_back(as_int64(both[1], "keys"));
    asked.push_back({table, int64s(keys.back()), keys.back().size(), nullptr, {}});
  }
  std::vector<fleet::Array<float>> rows;
  std::vector<std::int64_t> numbers;
  {
    const WithoutGil release;
    for (Tables::Wanted& one : asked) {
      rows.emplace_back(one.n * tables.base(one.table).width());
      one.rows = rows.back().data();
    }
    numbers = tables.lookup(asked);
  }
  nb::list found;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    found.append(nb::make_tuple(to_numpy(std::move(rows[i]), asked[i].n, tables.base(asked[i].table).width()),
                                numbers_of(asked[i].missing)));
  }
  return nb::make_tuple(found, numbers_of(numbers));
}

void take_batch(Tables& tables, nb::handle shard, nb::handle number, nb::sequence changed) {
  if (tables.num_shards() == 0) value_error("there are no shards");
  const std::size_t of = as_integer(shard, "shard", 0, tables.num_shards() - 1);
  const auto batch = static_cast<std::int64_t>(as_integer(number, "number", 0, std::uint64_t{1} << 62));
  std::vector<AnyArray> held;
  std::vector<Tables::Changed> all;
  for (const nb::handle one : changed) {
    if (!nb::isinstance<nb::tuple>(one) || nb::len(one) != 4) {
      type_error("changed must have tuples (table, keys, rows, gone)");
    }
    const auto parts = nb::borrow<nb::tuple>(one);
    const std::size_t table = table_of(tables, parts[0]);
    for (const Tables::Changed& other : all) {
      if (other.table == table) value_error("changed has table " + std::to_string(table) + " twice");
    }
    const AnyArray keys = as_int64(parts[1], "keys"), rows = as_array(parts[2], "rows"),
                   gone = as_int64(parts[3], "gone");
    const float* data = items<float>(rows, parts[2], "rows", {keys.size(), tables.base(table).width()});
    all.push_back({table, int64s(keys), keys.size(), data, int64s(gone), gone.size()});
    held.insert(held.end(), {keys, rows, gone});
  }
  const WithoutGil release;
  tables.apply(of, batch, all);
}

}  // namespace

void add_serve(nb::module_& m) {
  nb::class_<ServedBase>(m, "ServedBase", "All rows of a table in one mapped file; see _native.pyi.")
      .def(nb::new_(&open_base), nb::arg("path"), nb::arg("in_memory") = false)
      .def("__len__", [](const ServedBase& base) { return base.base->size(); })
      .def_prop_ro("width", [](const ServedBase& base) { return base.base->width(); })
      .def_prop_ro("format", [](const ServedBase& base) { return static_cast<int>(base.base->format()); })
      .def_prop_ro("file_bytes", [](const ServedBase& base) { return base.base->file_bytes(); });
  nb::class_<BaseWriter>(m, "ServedBaseWriter", "Writes the file of a ServedBase; see _native.pyi.")
      .def(nb::new_(&make_writer), nb::arg("path"), nb::arg("width").none(), nb::arg("format").none(),
           nb::arg("size").none(), nb::arg("memory_bytes").none())
      .def("count", &count, nb::arg("keys").none())
      .def("next_pass", &next_pass)
      .def("add", &add, nb::arg("keys").none(), nb::arg("rows").none())
      .def("finish", &finish);
  nb::class_<Tables>(m, "ServedTables", "Tables that are served, with the changes since their bases; see _native.pyi.")
      .def(nb::new_(&make_tables), nb::arg("bases"), nb::arg("numbers").none())
      .def("lookup", &look_up, nb::arg("wanted"))
      .def("apply", &take_batch, nb::arg("shard").none(), nb::arg("number").none(), nb::arg("changed"))
      .def_prop_ro("numbers", [](const Tables& tables) { return numbers_of(tables.numbers()); })
      .def(
          "num_changed",
          [](const Tables& tables, nb::handle table) { return tables.num_changed(table_of(tables, table)); },
          nb::arg("table").none())
      .def_prop_ro("changed_bytes", [](const Tables& tables) { return tables.changed_bytes(); });
}

}  // namespace fleet::bind
