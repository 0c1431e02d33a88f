#include "keys/route.h"

#include <algorithm>
#include <utility>

#include "keys/hash.h"
#include "keys/route_sort.h"
#include "keys/scratch.h"
#include "keys/unique.h"
#include "threads/team.h"

namespace fleet {
namespace {

// Distinct keys in ascending order go to their servers; place[i] = where keys[i] went. A counting sort: it is stable,
// so they still ascend within a server.
void group(const std::int64_t* keys, std::size_t n, std::uint32_t num_servers, Route& out, std::uint32_t* place) {
  out.grouped = Array<std::int64_t>(n);
  Scratch<std::uint16_t> server(n);
  Scratch<std::uint32_t> next(num_servers);
  std::fill_n(next.data(), num_servers, 0);
  for (std::size_t i = 0; i < n; ++i) {
    server[i] = static_cast<std::uint16_t>(server_of(keys[i], num_servers));
    ++next[server[i]];
  }
  std::uint32_t start = 0;
  for (std::uint32_t s = 0; s < num_servers; ++s) {
    const std::uint32_t count = next[s];
    out.offsets[s] = next[s] = start;
    start += count;
  }
  out.offsets[num_servers] = start;
  std::int64_t* const grouped = out.grouped.data();
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t position = next[server[i]]++;
    grouped[position] = keys[i];
    place[i] = position;
  }
}

// positions[i] becomes new_position[positions[i]].
void renumber(std::int64_t* positions, std::size_t n, const std::uint32_t* new_position) {
  for (std::size_t i = 0; i < n; ++i) positions[i] = new_position[static_cast<std::size_t>(positions[i])];
}

void route_dense(const std::int64_t* keys, std::size_t n, Bounds bounds, std::uint32_t num_servers, Route& out) {
  Unique found = unique_dense(keys, n, bounds.min, bounds.max);
  Scratch<std::uint32_t> place(found.keys.size());
  group(found.keys.data(), found.keys.size(), num_servers, out, place.data());
  out.inverse = std::move(found.inverse);
  const std::size_t num_parts = parts_for_keys(n);
  Team::shared().parallel_for(num_parts, [&](std::size_t part) {
    const auto [begin, end] = slice_of(n, num_parts, part);
    renumber(out.inverse.data() + begin, end - begin, place.data());
  });
}

}  // namespace

Route route(const std::int64_t* keys, std::size_t n, std::uint32_t num_servers, bool with_counts) {
  Route out{{}, {}, Array<std::int64_t>(std::size_t{num_servers} + 1), {}};
  if (n == 0) {
    std::fill_n(out.offsets.data(), out.offsets.size(), 0);
    return out;
  }
  const Bounds bounds = bounds_of(keys, n);
  if (!lie_close(bounds, n)) return route_sort(keys, n, bounds, num_servers, with_counts, parts_for_keys(n));
  route_dense(keys, n, bounds, num_servers, out);
  if (with_counts) {
    out.counts = Array<std::uint32_t>(out.grouped.size());
    std::fill_n(out.counts.data(), out.counts.size(), 0);
    for (std::size_t i = 0; i < n; ++i) ++out.counts[static_cast<std::size_t>(out.inverse[i])];
  }
  return out;
}

}  // namespace fleet
