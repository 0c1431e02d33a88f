#include "keys/split.h"

#include "check.h"
#include "inputs.h"
#include "keys/hash.h"

namespace {

void check_split(const std::vector<std::int64_t>& keys, std::uint32_t num_servers) {
  const fleet::Split result = fleet::split(keys.data(), keys.size(), num_servers);
  CHECK(result.offsets.size() == num_servers + 1);
  CHECK(result.offsets[0] == 0);
  CHECK(result.offsets[num_servers] == static_cast<std::int64_t>(keys.size()));
  for (std::uint32_t s = 0; s < num_servers; ++s) {
    CHECK(result.offsets[s] <= result.offsets[s + 1]);
    for (auto i = static_cast<std::size_t>(result.offsets[s]); i < static_cast<std::size_t>(result.offsets[s + 1]);
         ++i) {
      CHECK(fleet::server_of(result.grouped[i], num_servers) == s);
      CHECK(result.grouped[i] == keys[static_cast<std::size_t>(result.order[i])]);
      CHECK(static_cast<std::int64_t>(i) == result.offsets[s] || result.order[i - 1] < result.order[i]);
    }
  }
}

}  // namespace

TEST(split) {
  for (const std::uint32_t num_servers : {1u, 2u, 7u, 65536u}) {
    check_split({}, num_servers);
    for (const auto& keys : hard_inputs()) check_split(keys, num_servers);
  }
  CHECK(fleet::mix64(0) == 0xe220a8397b1dcdafu);  // the first output of splitmix64 seeded with 0
  CHECK(fleet::server_of(0, 1000) == 883);
}
