#include "keys/split.h"

#include <algorithm>
#include <numeric>

#include "keys/hash.h"
#include "keys/scratch.h"

namespace fleet {

Split split(const std::int64_t* keys, std::size_t n, std::uint32_t num_servers) {
  Split out{Array<std::int64_t>(n), Array<std::int64_t>(n), Array<std::int64_t>(std::size_t{num_servers} + 1)};
  if (num_servers == 1) {
    std::copy_n(keys, n, out.grouped.data());
    std::iota(out.order.data(), out.order.data() + n, std::int64_t{0});
    out.offsets[0] = 0;
    out.offsets[1] = static_cast<std::int64_t>(n);
    return out;
  }

  // A counting sort: the first pass hashes each key once and counts, the second one places it.
  Scratch<std::uint16_t> server(n);
  Scratch<std::int64_t> next(num_servers);
  std::fill_n(next.data(), num_servers, 0);
  for (std::size_t i = 0; i < n; ++i) {
    server[i] = static_cast<std::uint16_t>(server_of(keys[i], num_servers));
    ++next[server[i]];
  }
  std::int64_t start = 0;
  for (std::uint32_t s = 0; s < num_servers; ++s) {
    const std::int64_t count = next[s];
    out.offsets[s] = next[s] = start;
    start += count;
  }
  out.offsets[num_servers] = start;
  for (std::size_t i = 0; i < n; ++i) {
    const auto position = static_cast<std::size_t>(next[server[i]]++);
    out.grouped[position] = keys[i];
    out.order[position] = static_cast<std::int64_t>(i);
  }
  return out;
}

}  // namespace fleet
