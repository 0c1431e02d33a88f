// Keys of a batch, grouped by the server that holds them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "keys/array.h"

namespace fleet {

struct Split {
  Array<std::int64_t> grouped;  // server 0's keys, then server 1's, ...; input order within a server
  Array<std::int64_t> order;    // grouped[i] is input order[i]
  Array<std::int64_t> offsets;  // server s's keys are grouped[offsets[s] .. offsets[s + 1])
};

// Requires 1 <= num_servers <= kMaxServers (keys/hash.h).
Split split(const std::int64_t* keys, std::size_t n, std::uint32_t num_servers);

}  // namespace fleet
