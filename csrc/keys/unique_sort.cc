#include <utility>

#include "keys/route_sort.h"
#include "keys/unique.h"

namespace fleet {

Unique unique_sort(const std::int64_t* keys, std::size_t n, std::int64_t min, std::int64_t max) {
  Route found = route_sort(keys, n, {min, max}, 1, false, parts_for_keys(n));
  return {std::move(found.grouped), std::move(found.inverse)};
}

}  // namespace fleet
