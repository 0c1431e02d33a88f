#include "bind/arrays.h"
#include "trace/ring.h"

namespace fleet::bind {

namespace {

nb::list take_spans() {
  const auto spans = [] {
    WithoutGil release;
    return trace::take();
  }();
  nb::list found;
  for (const trace::Span& one : spans) {
    nb::list about;
    for (const std::uint64_t number : one.about) about.append(number);
    found.append(
        nb::make_tuple(trace::kNames[static_cast<std::size_t>(one.what)], one.thread, one.begin_ns, one.end_ns, about));
  }
  return found;
}

}  // namespace

void add_trace(nb::module_& m) {
  m.def("record_spans", &trace::switch_on, nb::arg("on"), "Whether the native core keeps spans; see _native.pyi.");
  m.def("take_spans", &take_spans, "The spans since the last call; see _native.pyi.");
  m.def("lost_spans", &trace::num_lost, "How many spans found no room so far.");
}

}  // namespace fleet::bind
