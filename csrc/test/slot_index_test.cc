#include "cache/slot_index.h"

#include <map>
#include <vector>

#include "check.h"
#include "threads/team.h"

namespace {

using Keys = std::vector<std::int64_t>;

}  // namespace

TEST(slot_index_evicts_what_nobody_needs) {
  fleet::SlotIndex index(3);
  Keys slots(3);
  const Keys first = {5, 6, 7}, second = {6, 8}, third = {9, 10};
  auto placed = index.place(first.data(), 3, 1, 1, slots.data());
  CHECK((placed.new_keys == first && placed.gone_keys.empty() && slots == placed.new_slots));
  const Keys before = slots;
  placed = index.place(second.data(), 2, 2, 2, slots.data());
  CHECK(slots[0] == before[1] && placed.new_keys == Keys{8} && placed.gone_keys.size() == 1);
  CHECK(slots[1] == placed.gone_slots[0]);
  placed = index.place(third.data(), 2, 3, 2, slots.data());  // 6 and 8 are still needed: one goes, and one is more
  CHECK(placed.gone_keys.size() == 1 && index.num_slots() == 4 && index.size() == 4);
}

TEST(slot_index_in_shards_is_a_map) {
  fleet::SlotIndex index(70000);
  std::map<std::int64_t, std::int64_t> known;
  for (std::uint64_t now = 1; now < 8; ++now) {
    Keys keys, slots(30000);
    for (std::int64_t i = 0; i < 30000; ++i) keys.push_back((i * static_cast<std::int64_t>(now + 3)) * 1048583);
    const auto placed = index.place(keys.data(), keys.size(), now, now, slots.data());
    for (const auto key : placed.gone_keys) CHECK(known.erase(key) == 1);
    for (std::size_t i = 0; i < placed.new_keys.size(); ++i) known[placed.new_keys[i]] = placed.new_slots[i];
    bool same = true;
    for (std::size_t i = 0; i < keys.size(); ++i) same = same && known.at(keys[i]) == slots[i];
    CHECK(same && known.size() == index.size());
  }
}
