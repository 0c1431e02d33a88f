#include "bind/arrays.h"
#include "threads/team.h"

namespace fleet::bind {

void add_threads(nb::module_& m) {
  m.def(
      "set_threads",
      [](nb::handle num_threads) {
        Team::set_shared_size(static_cast<std::size_t>(as_integer(num_threads, "num_threads", 1, Team::kMost)));
      },
      nb::arg("num_threads").none(), "On how many threads one call may work, the caller's among them.");
  m.def(
      "rouse",
      [](nb::handle microseconds) {
        const auto patience = std::chrono::microseconds(as_integer(microseconds, "microseconds", 0, 100'000));
        const nb::gil_scoped_release released;
        Team::shared().rouse(patience);
      },
      nb::arg("microseconds").none(), "Have the threads of the next calls be awake until so much time is over.");
  m.def("num_threads", &Team::shared_size, "On how many threads one call may work.");
}

}  // namespace fleet::bind
