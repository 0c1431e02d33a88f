// Which server holds a key.
//
// A contract on the wire and on disk: workers, servers and saved shards of any version must agree on it, so neither
// mix64 nor server_of may ever change. The tests pin values.
//
//   h         = splitmix64(key)                  the key's two's complement bits, as uint64
//   server_of = (h >> 32) * num_servers >> 32    the high half of h, scaled to [0, num_servers)
//
// Placement uses the high bits of h only. A hash table that uses mix64 as well must index by the low bits: all keys of
// one server share their high bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fleet {

// Placements fit 16 bits, which halves the scratch memory of split.
constexpr std::int64_t kMaxServers = 65536;

inline std::uint64_t mix64(std::int64_t key) {
  std::uint64_t h = static_cast<std::uint64_t>(key) + 0x9e3779b97f4a7c15u;
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
  return h ^ (h >> 31);
}

inline std::uint32_t server_of(std::int64_t key, std::uint32_t num_servers) {
  return static_cast<std::uint32_t>(((mix64(key) >> 32) * num_servers) >> 32);
}

// servers[i] = server_of(keys[i]). Requires 1 <= num_servers <= kMaxServers.
void servers_of(const std::int64_t* keys, std::size_t n, std::uint32_t num_servers, std::int64_t* servers);

}  // namespace fleet
