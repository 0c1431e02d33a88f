#include <vector>

#include "bind/arrays.h"
#include "keys/hash.h"
#include "keys/merge.h"
#include "keys/route.h"
#include "keys/split.h"
#include "keys/unique.h"

namespace fleet::bind {

namespace {

std::uint32_t checked_servers(nb::handle num_servers) {
  const nb::object number = nb::steal(PyNumber_Index(num_servers.ptr()));
  if (!number.is_valid()) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) nb::raise_python_error();
    PyErr_Clear();
    type_error("num_servers must be an integer, got " + text(nb::inst_name(num_servers)));
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0 || value < 1 || value > fleet::kMaxServers) {
    value_error("num_servers must be in 1.." + std::to_string(fleet::kMaxServers) + ", got " + text(number));
  }
  return static_cast<std::uint32_t>(value);
}

nb::tuple unique(nb::handle keys) {
  const AnyArray array = as_int64(keys, "keys");
  if (array.size() > fleet::kMaxUnique) value_error("keys has more than 2^32 - 2 entries; split the batch");
  fleet::Unique result;
  {
    WithoutGil release;
    result = fleet::unique(int64s(array), array.size());
  }
  return nb::make_tuple(to_numpy(std::move(result.keys)), to_numpy(std::move(result.inverse)));
}

nb::tuple split(nb::handle keys, nb::handle num_servers) {
  const AnyArray array = as_int64(keys, "keys");
  const std::uint32_t servers = checked_servers(num_servers);
  fleet::Split result;
  {
    WithoutGil release;
    result = fleet::split(int64s(array), array.size(), servers);
  }
  return nb::make_tuple(to_numpy(std::move(result.grouped)), to_numpy(std::move(result.order)),
                        to_numpy(std::move(result.offsets)));
}

nb::tuple route(nb::handle keys, nb::handle num_servers, bool counts) {
  const AnyArray array = as_int64(keys, "keys");
  const std::uint32_t servers = checked_servers(num_servers);
  if (array.size() > fleet::kMaxUnique) value_error("keys has more than 2^32 - 2 entries; split the batch");
  fleet::Route result;
  {
    WithoutGil release;
    result = fleet::route(int64s(array), array.size(), servers, counts);
  }
  return nb::make_tuple(to_numpy(std::move(result.grouped)), to_numpy(std::move(result.inverse)),
                        to_numpy(std::move(result.offsets)),
                        counts ? to_numpy(std::move(result.counts)) : nb::object(nb::none()));
}

nb::object server_of(nb::handle keys, nb::handle num_servers) {
  const AnyArray array = as_int64(keys, "keys");
  const std::uint32_t servers = checked_servers(num_servers);
  fleet::Array<std::int64_t> result;
  {
    WithoutGil release;
    result = fleet::Array<std::int64_t>(array.size());
    fleet::servers_of(int64s(array), array.size(), servers, result.data());
  }
  return to_numpy(std::move(result));
}

nb::object merge(nb::handle pieces, nb::handle order) {
  if (!nb::isinstance<nb::sequence>(pieces)) {
    type_error("pieces must be a sequence of arrays, got " + text(nb::inst_name(pieces)));
  }
  const AnyArray order_array = as_int64(order, "order");
  std::vector<AnyArray> arrays;  // keeps the rows alive while the GIL is away
  std::vector<fleet::Piece> rows;
  std::size_t total = 0;
  for (nb::handle piece : pieces) {
    const std::string name = "pieces[" + std::to_string(arrays.size()) + "]";
    AnyArray array = as_array(piece, name);
    if (array.ndim() != 1 && array.ndim() != 2) {
      value_error(name + " must have 1 or 2 dimensions, got " + std::to_string(array.ndim()));
    }
    if (!arrays.empty()) {
      const AnyArray& first = arrays.front();
      if (array.dtype() != first.dtype()) type_error(name + " and pieces[0] differ in dtype");
      if (array.ndim() != first.ndim() || (array.ndim() == 2 && array.shape(1) != first.shape(1))) {
        value_error(name + " and pieces[0] differ in width");
      }
    }
    total += array.shape(0);
    rows.push_back({array.data(), array.shape(0)});
    arrays.push_back(std::move(array));
  }
  if (arrays.empty()) value_error("pieces must hold at least one array: it gives the dtype and the width");
  if (total != order_array.size()) {
    value_error("pieces hold " + std::to_string(total) + " rows, but order has " + std::to_string(order_array.size()) +
                " entries");
  }

  const AnyArray& first = arrays.front();
  const std::size_t width = first.ndim() == 2 ? first.shape(1) : 1;
  const std::size_t row_bytes = width * first.itemsize();
  fleet::Array<std::byte> out;
  bool complete = false;
  {
    WithoutGil release;
    out = fleet::Array<std::byte>(total * row_bytes);
    complete = fleet::merge(rows.data(), rows.size(), row_bytes, int64s(order_array), out.data());
  }
  if (!complete) value_error("order must name each of 0.." + std::to_string(total - 1) + " once");
  std::byte* data = out.data();
  const std::size_t shape[] = {total, width};
  return nb::cast(nb::ndarray<nb::numpy>(data, first.ndim(), shape, own(out), nullptr, first.dtype()));
}

}  // namespace

void add_keys(nb::module_& m) {
  m.def("unique", &unique, nb::arg("keys").none(), "Sorted distinct keys, and the position of each key among them.");
  m.def("split", &split, nb::arg("keys").none(), nb::arg("num_servers").none(),
        "Keys grouped by server: (grouped, order, offsets).");
  m.def("route", &route, nb::arg("keys").none(), nb::arg("num_servers").none(), nb::arg("counts") = false,
        "Distinct keys grouped by server: (grouped, inverse, offsets, counts or None).");
  m.def("server_of", &server_of, nb::arg("keys").none(), nb::arg("num_servers").none(),
        "The server that holds each key.");
  m.def("merge", &merge, nb::arg("pieces").none(), nb::arg("order").none(),
        "Rows of all servers, in the order of the keys.");
}

}  // namespace fleet::bind
