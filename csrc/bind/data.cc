#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <memory>
#include <tuple>
#include <vector>

#include "bind/arrays.h"
#include "data/multislot.h"
#include "data/take.h"

namespace fleet::bind {

using namespace fleet::data;

namespace {

// A numpy array over the vector itself: a chunk's values are copied no more.
template <class T>
nb::object vector_to_numpy(std::vector<T> values, std::size_t width) {
  auto kept = std::make_unique<std::vector<T>>(std::move(values));
  const std::size_t rows = width == 0 ? kept->size() : kept->size() / width;
  T* const data = kept->data();
  const nb::capsule owner(kept.get(), [](void* vector) noexcept { delete static_cast<std::vector<T>*>(vector); });
  kept.release();
  const std::size_t shape[] = {rows, width};
  return nb::cast(nb::ndarray<nb::numpy, T>(data, width == 0 ? 1 : 2, shape, owner));
}

nb::object values_of(const Slot& slot, SlotColumn& column) {
  switch (slot.type) {
    case SlotType::kFloat: return vector_to_numpy(std::move(column.floats), slot.width);
    case SlotType::kDouble: return vector_to_numpy(std::move(column.doubles), slot.width);
    case SlotType::kInt: return vector_to_numpy(std::move(column.ints), slot.width);
  }
  return nb::none();
}

nb::tuple parse_multislot(nb::handle text, bool is_last, const nb::sequence& slots, bool has_id, bool has_content) {
  const AnyArray array = as_array(text, "text");
  if (array.dtype() != nb::dtype<std::uint8_t>()) type_error("text must be uint8, got " + dtype_text(text));
  std::vector<Slot> declared;
  for (nb::handle item : slots) {
    std::tuple<std::string, std::string, std::size_t> parts;
    if (!nb::try_cast(item, parts)) type_error("a slot must be (name, type, width), got " + bind::text(nb::repr(item)));
    const auto& [name, type, width] = parts;
    if (type != "f" && type != "d" && type != "i") {
      value_error("the type of slot '" + name + "' must be f, d or i, got " + type);
    }
    declared.push_back({name, static_cast<SlotType>(type[0]), width});
  }
  if (declared.empty()) value_error("slots must name at least one");
  Parsed parsed;
  {
    WithoutGil release;
    parsed = fleet::data::parse_multislot(static_cast<const char*>(array.data()), array.size(), is_last, declared,
                                          {has_id, has_content});
  }
  if (parsed.problem) {
    const nb::tuple problem = nb::make_tuple(parsed.problem->line, parsed.problem->what, parsed.problem->remedy);
    return nb::make_tuple(parsed.consumed, parsed.num_lines, parsed.num_records, nb::none(), nb::list(), problem);
  }
  nb::list columns;
  for (std::size_t s = 0; s < declared.size(); ++s) {
    SlotColumn& column = parsed.columns[s];
    const bool is_ragged = declared[s].width == 0;
    const nb::object offsets = is_ragged ? vector_to_numpy(std::move(column.offsets), 0) : nb::object(nb::none());
    columns.append(nb::make_tuple(values_of(declared[s], column), offsets));
  }
  const nb::object ids = has_id ? vector_to_numpy(std::move(parsed.ids), 0) : nb::object(nb::none());
  return nb::make_tuple(parsed.consumed, parsed.num_lines, parsed.num_records, ids, columns, nb::none());
}

nb::tuple take_ragged(nb::handle values, nb::handle offsets, nb::handle index) {
  const AnyArray items = as_array(values, "values"), ends = as_int64(offsets, "offsets"),
                 rows = as_int64(index, "index");
  if (items.ndim() != 1) value_error("values must have 1 dimension, got " + std::to_string(items.ndim()));
  if (ends.size() == 0) value_error("offsets must have at least 1 element, got 0");
  Taken taken;
  bool is_complete = false;
  {
    WithoutGil release;
    is_complete = fleet::data::take_ragged(static_cast<const std::byte*>(items.data()), items.size(), items.itemsize(),
                                           int64s(ends), ends.size() - 1, int64s(rows), rows.size(), taken);
  }
  if (!is_complete) {
    value_error("index must name records in 0.." + std::to_string(ends.size() - 1) +
                " (exclusive), and offsets must ascend within values");
  }
  const std::size_t size = static_cast<std::size_t>(taken.offsets[rows.size()]);
  std::byte* const data = taken.values.data();
  const nb::object result = nb::cast(nb::ndarray<nb::numpy>(data, 1, &size, own(taken.values), nullptr, items.dtype()));
  return nb::make_tuple(result, to_numpy(std::move(taken.offsets)));
}

}  // namespace

void add_data(nb::module_& m) {
  m.def("parse_multislot", &parse_multislot, nb::arg("text").none(), nb::arg("is_last"), nb::arg("slots"),
        nb::arg("has_id") = false, nb::arg("has_content") = false,
        "Lines of MultiSlot text as columns: (consumed, lines, records, ids, columns, problem).");
  m.def("take_ragged", &take_ragged, nb::arg("values").none(), nb::arg("offsets").none(), nb::arg("index").none(),
        "Some records of a ragged column: (values, offsets).");
}

}  // namespace fleet::bind
