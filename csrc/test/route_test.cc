#include "keys/route.h"

#include <algorithm>
#include <map>

#include "check.h"
#include "inputs.h"
#include "keys/hash.h"
#include "keys/split.h"
#include "keys/unique.h"

namespace {

void check_route(const std::vector<std::int64_t>& keys, std::uint32_t num_servers) {
  const fleet::Route result = fleet::route(keys.data(), keys.size(), num_servers, true);
  const fleet::Unique distinct = fleet::unique(keys.data(), keys.size());
  // Split is stable and the distinct keys ascend, so the two in a row are what route promises.
  const fleet::Split expected = fleet::split(distinct.keys.data(), distinct.keys.size(), num_servers);
  const std::size_t total = expected.grouped.size();
  CHECK(result.grouped.size() == total);
  CHECK(std::equal(expected.grouped.data(), expected.grouped.data() + total, result.grouped.data()));
  CHECK(result.offsets.size() == num_servers + 1);
  CHECK(std::equal(result.offsets.data(), result.offsets.data() + num_servers + 1, expected.offsets.data()));

  std::map<std::int64_t, std::uint32_t> times;
  CHECK(result.inverse.size() == keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto position = static_cast<std::size_t>(result.inverse[i]);
    CHECK(position < total);
    CHECK(result.grouped[position] == keys[i]);
    ++times[keys[i]];
  }
  CHECK(result.counts.size() == total);
  for (std::size_t i = 0; i < total; ++i) CHECK(result.counts[i] == times[result.grouped[i]]);
}

}  // namespace

TEST(route) {
  for (const std::uint32_t num_servers : {1u, 2u, 7u, 65536u}) {
    check_route({}, num_servers);
    for (const auto& keys : hard_inputs()) check_route(keys, num_servers);
  }
  const std::int64_t keys[] = {3, 3, 5};
  CHECK(fleet::route(keys, 3, 2, false).counts.size() == 0);
}
