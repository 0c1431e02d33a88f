#include "data/delimited.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "bind/arrays.h"
#include "data/hash_text.h"
#include "data/lines.h"

namespace fleet::bind {

using namespace fleet::data;

namespace {

template <class T>
nb::object matrix(Array<T> array, std::size_t rows, std::size_t width) {
  T* const data = array.data();
  const nb::capsule owner = own(array);
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<2>>(data, {rows, width}, owner));
}

template <class T>
nb::object list(std::vector<T> values) {
  auto kept = std::make_unique<std::vector<T>>(std::move(values));
  T* const data = kept->data();
  const std::size_t size = kept->size();
  const nb::capsule owner(kept.get(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  kept.release();
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {size}, owner));
}

AnyArray as_text(nb::handle text) {
  AnyArray array = as_array(text, "text");
  if (array.dtype() != nb::dtype<std::uint8_t>()) type_error("text must be uint8, got " + dtype_text(text));
  return array;
}

const char* chars(const AnyArray& array) { return static_cast<const char*>(array.data()); }

// The plan of a schema: made once, used for every block.
class DelimitedText {
 public:
  DelimitedText(std::size_t num_columns, const std::string& delimiter, bool has_quotes)
      : plan_{num_columns, one_byte(delimiter, "delimiter"), has_quotes, {}, {}, false} {
    if (plan_.delimiter == '\n' || plan_.delimiter == '\r' || (has_quotes && plan_.delimiter == '"')) {
      value_error("delimiter must not be an end of a line or a quote");
    }
  }

  void add_label(std::size_t column, const std::string& name) {
    add(Reading::Kind::kLabel, column, name).rounds = false;
  }
  void add_weight(std::size_t column, const std::string& name) {
    add(Reading::Kind::kWeight, column, name).rounds = false;
  }
  void add_text(std::size_t column, const std::string& name) { add(Reading::Kind::kText, column, name); }
  void add_gap(const std::string& text) { plan_.gaps.push_back(text); }
  void keep_begins() { plan_.has_begins = true; }

  void add_double(std::size_t column, const std::string& name, double missing) {
    add(Reading::Kind::kDouble, column, name).missing = missing;
  }

  void add_number(std::size_t column, const std::string& name, bool log, double missing, bool rounds) {
    Reading& reading = add(Reading::Kind::kNumber, column, name);
    reading.has_log = log;
    reading.missing = missing;
    reading.rounds = rounds;
  }

  void add_id(std::size_t column, const std::string& name, const std::string& kind, std::uint64_t seed,
              std::vector<double> bounds, std::int64_t gap, bool has_gap) {
    IdRule rule = id_rule(kind, seed, std::move(bounds), gap);
    rule.has_gap = has_gap;
    add(Reading::Kind::kId, column, name).id = std::move(rule);
  }

  void add_bag(std::size_t column, const std::string& name, const std::string& kind, std::uint64_t seed,
               std::vector<double> bounds, std::int64_t gap, const std::string& separator, std::size_t length) {
    IdRule rule = id_rule(kind, seed, std::move(bounds), gap);
    const char byte = separator.empty() ? '\0' : one_byte(separator, "separator");
    Reading& reading = add(Reading::Kind::kBag, column, name);
    reading.id = std::move(rule);
    reading.has_separator = !separator.empty();
    reading.separator = byte;
    reading.length = length;
  }

  nb::tuple parse(nb::handle text) const {
    const AnyArray array = as_text(text);
    Delimited made;
    {
      WithoutGil release;
      made = parse_delimited(chars(array), array.size(), plan_);
    }
    const std::size_t rows = made.num_records;
    nb::list bags, bad, texts;
    std::size_t widths[7] = {};
    for (const Reading& reading : plan_.readings) {
      if (reading.kind != Reading::Kind::kBag) {
        ++widths[static_cast<std::size_t>(reading.kind)];
        continue;
      }
      BagColumn& bag = made.bags[bags.size()];
      if (reading.length != 0) {
        bags.append(nb::make_tuple(matrix(std::move(bag.matrix), rows, reading.length), nb::none()));
      } else {
        bags.append(nb::make_tuple(list(std::move(bag.values)), list(std::move(bag.offsets))));
      }
    }
    for (TextColumn& one : made.texts)
      texts.append(nb::make_tuple(list(std::move(one.bytes)), list(std::move(one.offsets))));
    for (const BadLine& one : made.bad) bad.append(nb::make_tuple(one.line, one.begin, one.what));
    const auto width = [&](Reading::Kind kind) { return widths[static_cast<std::size_t>(kind)]; };
    return nb::make_tuple(made.num_lines, rows, matrix(std::move(made.labels), rows, width(Reading::Kind::kLabel)),
                          matrix(std::move(made.numbers), rows, width(Reading::Kind::kNumber)),
                          matrix(std::move(made.ids), rows, width(Reading::Kind::kId)),
                          matrix(std::move(made.weights), rows, width(Reading::Kind::kWeight)), bags, bad,
                          matrix(std::move(made.doubles), rows, width(Reading::Kind::kDouble)), texts,
                          list(std::move(made.begins)));
  }

 private:
  static char one_byte(const std::string& text, const std::string& name) {
    if (text.size() != 1) value_error(name + " must be one byte, got " + std::to_string(text.size()));
    return text[0];
  }

  static IdRule id_rule(const std::string& kind, std::uint64_t seed, std::vector<double> bounds, std::int64_t gap) {
    if (kind != "h" && kind != "p" && kind != "b") value_error("kind must be h, p or b, got " + kind);
    for (std::size_t i = 1; i < bounds.size(); ++i) {
      if (!(bounds[i - 1] < bounds[i])) value_error("bounds must ascend");
    }
    return {static_cast<IdKind>(kind[0]), seed, std::move(bounds), gap, true};
  }

  Reading& add(Reading::Kind kind, std::size_t column, const std::string& name) {
    if (column >= plan_.num_columns) {
      value_error("column must lie in 0.." + std::to_string(plan_.num_columns) + " (exclusive), got " +
                  std::to_string(column));
    }
    Reading reading{kind, column, name};
    plan_.readings.push_back(std::move(reading));
    return plan_.readings.back();
  }

  Plan plan_;
};

nb::object hash_text(std::uint64_t seed, nb::handle text, nb::handle offsets) {
  const AnyArray array = as_text(text), ends = as_array(offsets, "offsets");
  const bool is_wide = ends.dtype() == nb::dtype<std::int64_t>();
  if (!is_wide && ends.dtype() != nb::dtype<std::int32_t>()) {
    type_error("offsets must be int32 or int64, got " + dtype_text(offsets));
  }
  if (ends.ndim() != 1 || ends.size() == 0) value_error("offsets must have 1 dimension and at least 1 element");
  const std::size_t n = ends.size() - 1;
  Array<std::int64_t> ids(n);
  bool is_complete = false;
  {
    WithoutGil release;
    is_complete = is_wide ? hash_texts(seed, chars(array), array.size(), int64s(ends), n, ids.data())
                          : hash_texts(seed, chars(array), array.size(), static_cast<const std::int32_t*>(ends.data()),
                                       n, ids.data());
  }
  if (!is_complete)
    value_error("offsets must ascend within text, which has " + std::to_string(array.size()) + " bytes");
  return to_numpy(std::move(ids));
}

nb::object hash_numbers(std::uint64_t seed, nb::handle numbers) {
  const AnyArray array = as_array(numbers, "numbers");
  const bool is_signed = array.dtype() == nb::dtype<std::int64_t>();
  if (!is_signed && array.dtype() != nb::dtype<std::uint64_t>()) {
    type_error("numbers must be int64 or uint64, got " + dtype_text(numbers));
  }
  Array<std::int64_t> ids(array.size());
  {
    WithoutGil release;
    if (is_signed) {
      fleet::data::hash_numbers(seed, int64s(array), array.size(), ids.data());
    } else {
      fleet::data::hash_numbers(seed, static_cast<const std::uint64_t*>(array.data()), array.size(), ids.data());
    }
  }
  return to_numpy(std::move(ids));
}

}  // namespace

void add_delimited(nb::module_& m) {
  m.def(
      "slot_seed", [](const std::string& slot) { return slot_seed(slot.data(), slot.size()); }, nb::arg("slot"),
      "What goes into the hash of a slot's texts.");
  m.def("hash_text", &hash_text, nb::arg("seed"), nb::arg("text").none(), nb::arg("offsets").none(),
        "The id of each text between two offsets.");
  m.def("hash_numbers", &hash_numbers, nb::arg("seed"), nb::arg("numbers").none(),
        "The id of each integer's decimal text.");
  m.def(
      "count_lines",
      [](nb::handle text) {
        const AnyArray array = as_text(text);
        WithoutGil release;
        return count_lines(chars(array), array.size());
      },
      nb::arg("text").none(), "How many lines a text has; the last one needs no newline.");
  nb::class_<DelimitedText>(m, "DelimitedText", "How the lines of a text become columns; see csrc/data/delimited.h.")
      .def(nb::init<std::size_t, const std::string&, bool>(), nb::arg("num_columns"), nb::arg("delimiter"),
           nb::arg("quotes"))
      .def("add_label", &DelimitedText::add_label, nb::arg("column"), nb::arg("name"))
      .def("add_weight", &DelimitedText::add_weight, nb::arg("column"), nb::arg("name"))
      .def("add_text", &DelimitedText::add_text, nb::arg("column"), nb::arg("name"))
      .def("add_double", &DelimitedText::add_double, nb::arg("column"), nb::arg("name"), nb::arg("missing"))
      .def("add_gap", &DelimitedText::add_gap, nb::arg("text"))
      .def("keep_begins", &DelimitedText::keep_begins)
      .def("add_number", &DelimitedText::add_number, nb::arg("column"), nb::arg("name"), nb::arg("log"),
           nb::arg("missing"), nb::arg("rounds") = true)
      .def("add_id", &DelimitedText::add_id, nb::arg("column"), nb::arg("name"), nb::arg("kind"), nb::arg("seed"),
           nb::arg("bounds"), nb::arg("gap"), nb::arg("has_gap") = true)
      .def("add_bag", &DelimitedText::add_bag, nb::arg("column"), nb::arg("name"), nb::arg("kind"), nb::arg("seed"),
           nb::arg("bounds"), nb::arg("gap"), nb::arg("separator"), nb::arg("length"))
      .def("parse", &DelimitedText::parse, nb::arg("text").none(), "The lines as columns.");
}

}  // namespace fleet::bind
