#include "data/clicks.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "bind/arrays.h"

namespace fleet::bind {

using namespace fleet::data;

namespace {

constexpr std::uint64_t kMostSamples = 1u << 28;  // of one call

double between(nb::handle object, const std::string& name, double low, double high, bool with_ends) {
  const double value = as_number(object, name);
  if (with_ends ? value >= low && value <= high : value > low && value < high) return value;
  value_error(name + " must be " + (with_ends ? "from " : "between ") + std::to_string(low) +
              (with_ends ? " to " : " and ") + std::to_string(high) + ", got " + std::to_string(value));
}

void make(Clicks* self, nb::handle seed, const nb::sequence& vocabularies, const nb::sequence& gaps,
          nb::handle exponent, nb::handle click_rate, nb::handle signal) {
  ClickSettings settings;
  settings.seed = as_integer(seed, "seed", 0, ~std::uint64_t{0});
  if (nb::len(vocabularies) != kClickSlots) {
    value_error("vocabularies must be 26 numbers, got " + std::to_string(nb::len(vocabularies)));
  }
  if (nb::len(gaps) != kClickColumns) value_error("gaps must be 39 shares, got " + std::to_string(nb::len(gaps)));
  for (std::size_t s = 0; s < kClickSlots; ++s) {
    settings.vocabularies[s] =
        static_cast<std::uint32_t>(as_integer(nb::object(vocabularies[s]), "a vocabulary", 1, 1u << 31));
  }
  for (std::size_t c = 0; c < kClickColumns; ++c) {
    settings.gaps[c] = between(nb::object(gaps[c]), "a share of gaps", 0, 1, true);
  }
  settings.exponent = between(exponent, "exponent", 0, 4, false);
  settings.click_rate = between(click_rate, "click_rate", 0, 1, false);
  settings.signal = between(signal, "signal", 0, 10, true);
  WithoutGil release;
  new (self) Clicks(settings);
}

struct Range {
  std::uint64_t first;
  std::size_t count;
};

Range range_of(nb::handle first, nb::handle last) {
  const std::uint64_t begin = as_integer(first, "first", 0, std::uint64_t{1} << 62);
  const std::uint64_t end = as_integer(last, "last", begin, begin + kMostSamples);
  return {begin, static_cast<std::size_t>(end - begin)};
}

nb::tuple batch_of(const Clicks& clicks, nb::handle first, nb::handle last) {
  const Range range = range_of(first, last);
  Array<float> label(range.count), dense(range.count * kClickNumbers);
  Array<std::int64_t> ids(range.count * kClickSlots);
  {
    WithoutGil release;
    clicks.batch(range.first, range.count, label.data(), dense.data(), ids.data());
  }
  return nb::make_tuple(bind::to_numpy(std::move(label)), bind::to_numpy(std::move(dense), range.count, kClickNumbers),
                        bind::to_numpy(std::move(ids), range.count, kClickSlots));
}

nb::tuple probabilities(const Clicks& clicks, nb::handle first, nb::handle last) {
  const Range range = range_of(first, last);
  Array<double> probability(range.count);
  Array<float> label(range.count);
  {
    WithoutGil release;
    clicks.probabilities(range.first, range.count, probability.data(), label.data());
  }
  return nb::make_tuple(bind::to_numpy(std::move(probability)), bind::to_numpy(std::move(label)));
}

// A numpy array over memory that `kept` owns.
template <class Owner, class Item>
nb::object view(std::unique_ptr<Owner> kept, Item* data, std::size_t size) {
  const nb::capsule owner(kept.get(), [](void* pointer) noexcept { delete static_cast<Owner*>(pointer); });
  kept.release();
  return nb::cast(nb::ndarray<nb::numpy, Item, nb::ndim<1>>(data, {size}, owner));
}

template <class Item>
nb::object taken(std::vector<Item>& values) {
  auto kept = std::make_unique<std::vector<Item>>(std::move(values));
  Item* const data = kept->data();
  const std::size_t size = kept->size();
  return view(std::move(kept), data, size);
}

nb::object lines(const Clicks& clicks, nb::handle first, nb::handle last) {
  const Range range = range_of(first, last);
  auto made = std::make_unique<std::string>();
  {
    WithoutGil release;
    *made = clicks.text(range.first, range.count);
  }
  auto* const data = reinterpret_cast<std::uint8_t*>(made->data());
  const std::size_t size = made->size();
  return view(std::move(made), data, size);
}

nb::tuple columns(const Clicks& clicks, nb::handle first, nb::handle last) {
  const Range range = range_of(first, last);
  ClickColumns made;
  {
    WithoutGil release;
    made = clicks.columns(range.first, range.count);
  }
  nb::list numbers, categories;
  for (std::size_t c = 0; c < kClickColumns; ++c) {
    ClickColumns::Column& column = made.columns[c];
    if (c < kClickNumbers) {
      numbers.append(nb::make_tuple(taken(column.valid), taken(column.numbers)));
    } else {
      categories.append(nb::make_tuple(taken(column.valid), taken(column.offsets), taken(column.text)));
    }
  }
  return nb::make_tuple(taken(made.label), numbers, categories);
}

}  // namespace

void add_clicks(nb::module_& m) {
  nb::class_<Clicks>(m, "Clicks", "Click logs that are made up; sample i is a function of the settings and i.")
      .def("__init__", &make, nb::arg("seed").none(), nb::arg("vocabularies"), nb::arg("gaps"),
           nb::arg("exponent").none(), nb::arg("click_rate").none(), nb::arg("signal").none())
      .def("batch", &batch_of, nb::arg("first").none(), nb::arg("last").none(), "(label, dense, ids) of a range.")
      .def("probabilities", &probabilities, nb::arg("first").none(), nb::arg("last").none(),
           "(probability, label) of a range.")
      .def("text", &lines, nb::arg("first").none(), nb::arg("last").none(), "A range as lines of text, uint8.")
      .def("columns", &columns, nb::arg("first").none(), nb::arg("last").none(),
           "A range as Arrow keeps it: (label, [(valid, values)] * 13, [(valid, offsets, text)] * 26).");
}

}  // namespace fleet::bind
