#include "keys/unique.h"

#include <algorithm>
#include <vector>

#include "check.h"
#include "inputs.h"

namespace {

void check_same(const std::vector<std::int64_t>& keys, const fleet::Unique& result) {
  std::vector<std::int64_t> expected = keys;
  std::sort(expected.begin(), expected.end());
  expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
  CHECK(result.keys.size() == expected.size());
  CHECK(std::equal(expected.begin(), expected.end(), result.keys.data()));
  CHECK(result.inverse.size() == keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    CHECK(result.keys[static_cast<std::size_t>(result.inverse[i])] == keys[i]);
  }
}

}  // namespace

TEST(unique) {
  CHECK(fleet::unique(nullptr, 0).keys.size() == 0);
  for (const auto& keys : hard_inputs()) {
    const auto [min, max] = std::minmax_element(keys.begin(), keys.end());
    check_same(keys, fleet::unique(keys.data(), keys.size()));
    check_same(keys, fleet::unique_sort(keys.data(), keys.size(), *min, *max));
    const std::uint64_t range = static_cast<std::uint64_t>(*max) - static_cast<std::uint64_t>(*min);
    if (range < (1u << 24)) check_same(keys, fleet::unique_dense(keys.data(), keys.size(), *min, *max));
  }
}
