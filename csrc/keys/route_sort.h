// Distinct keys by sorting: the way of route and unique for keys that lie far apart.
#pragma once

#include <cstddef>
#include <cstdint>

#include "keys/route.h"
#include "keys/unique.h"

namespace fleet {

// What route() promises. n >= 1, and `bounds` bound the keys. The work is cut into `num_parts`, 1 or more, for the
// threads of the shared team; the result does not depend on it.
Route route_sort(const std::int64_t* keys, std::size_t n, Bounds bounds, std::uint32_t num_servers, bool with_counts,
                 std::size_t num_parts);

}  // namespace fleet
