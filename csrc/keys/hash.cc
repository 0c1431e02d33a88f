#include "keys/hash.h"

namespace fleet {

void servers_of(const std::int64_t* keys, std::size_t n, std::uint32_t num_servers, std::int64_t* servers) {
  for (std::size_t i = 0; i < n; ++i) servers[i] = server_of(keys[i], num_servers);
}

}  // namespace fleet
