#include "keys/route.h"

#include <algorithm>
#include <map>

#include "check.h"
#include "inputs.h"
#include "keys/hash.h"
#include "keys/route_sort.h"
#include "keys/split.h"
#include "keys/unique.h"
#include "threads/team.h"

namespace {

void check_route(const std::vector<std::int64_t>& keys, std::uint32_t num_servers, const fleet::Route& result) {
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
    check_route({}, num_servers, fleet::route(nullptr, 0, num_servers, true));
    for (const auto& keys : hard_inputs()) {
      check_route(keys, num_servers, fleet::route(keys.data(), keys.size(), num_servers, true));
    }
  }
  const std::int64_t keys[] = {3, 3, 5};
  CHECK(fleet::route(keys, 3, 2, false).counts.size() == 0);
}

// However the work is cut, also where a part has one key, and where all keys of several parts fall into one bucket.
TEST(route_in_parts) {
  fleet::Team::set_shared_size(3);
  for (const auto& keys : hard_inputs()) {
    const fleet::Bounds bounds = fleet::bounds_of(keys.data(), keys.size());
    for (const std::size_t num_parts : {1u, 2u, 3u, 8u}) {
      for (const std::uint32_t num_servers : {1u, 3u}) {
        check_route(keys, num_servers,
                    fleet::route_sort(keys.data(), keys.size(), bounds, num_servers, true, num_parts));
      }
    }
  }
}

TEST(route_on_threads) {
  std::mt19937_64 random(3);
  std::vector<std::int64_t> far(100000), near(100000);
  for (std::size_t i = 0; i < far.size(); ++i) {
    near[i] = static_cast<std::int64_t>(random() % 70000);
    far[i] = near[i] << 40;
  }
  for (const std::size_t size : {1u, 4u}) {
    fleet::Team::set_shared_size(size);
    for (const auto* keys : {&far, &near}) check_route(*keys, 2, fleet::route(keys->data(), keys->size(), 2, true));
  }
}
