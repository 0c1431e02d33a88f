// Distinct keys of a batch, grouped by the server that holds them: unique and split in one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "keys/array.h"

namespace fleet {

// Rows that the servers answer for `grouped`, one server's after the other's, need no merge: row inverse[i] is input
// i's.
struct Route {
  Array<std::int64_t> grouped;  // distinct; server 0's keys, then server 1's, ...; in signed order within a server
  Array<std::int64_t> inverse;  // grouped[inverse[i]] is input i
  Array<std::int64_t> offsets;  // server s's keys are grouped[offsets[s] .. offsets[s + 1])
  Array<std::uint32_t> counts;  // how often grouped[j] occurs in the input; empty unless asked for
};

// Linear in n for every input; the result depends on the input alone. Requires n <= kMaxUnique (keys/unique.h) and
// 1 <= num_servers <= kMaxServers (keys/hash.h).
Route route(const std::int64_t* keys, std::size_t n, std::uint32_t num_servers, bool with_counts);

}  // namespace fleet
