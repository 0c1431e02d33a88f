#include "keys/radix.h"

#include <algorithm>
#include <vector>

#include "check.h"
#include "inputs.h"

TEST(radix) {
  for (const auto& keys : hard_inputs()) {
    const auto base = static_cast<std::uint64_t>(*std::min_element(keys.begin(), keys.end()));
    const auto top = static_cast<std::uint64_t>(*std::max_element(keys.begin(), keys.end()));
    std::vector<fleet::Tagged> pairs(keys.size()), spare(keys.size());
    for (std::uint32_t i = 0; i < keys.size(); ++i) pairs[i] = {static_cast<std::uint64_t>(keys[i]) - base, i};
    const fleet::Tagged* sorted = fleet::radix_sort(pairs.data(), spare.data(), keys.size(), top - base);

    std::vector<bool> seen(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      CHECK(i == 0 || sorted[i - 1].key <= sorted[i].key);
      CHECK(sorted[i].key + base == static_cast<std::uint64_t>(keys[sorted[i].tag]));
      CHECK(!seen[sorted[i].tag]);
      seen[sorted[i].tag] = true;
    }
  }
}
