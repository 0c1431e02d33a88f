#include "data/take.h"

#include <cstring>

namespace fleet::data {

bool take_ragged(const std::byte* values, std::size_t num_values, std::size_t item_size, const std::int64_t* offsets,
                 std::size_t num_records, const std::int64_t* index, std::size_t n, Taken& taken) {
  taken.offsets = Array<std::int64_t>(n + 1);
  taken.offsets[0] = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (index[i] < 0 || static_cast<std::uint64_t>(index[i]) >= num_records) return false;
    const std::int64_t first = offsets[index[i]], last = offsets[index[i] + 1];
    if (first < 0 || last < first || static_cast<std::uint64_t>(last) > num_values) return false;
    taken.offsets[i + 1] = taken.offsets[i] + (last - first);
  }
  taken.values = Array<std::byte>(static_cast<std::size_t>(taken.offsets[n]) * item_size);
  for (std::size_t i = 0; i < n; ++i) {
    const auto first = static_cast<std::size_t>(offsets[index[i]]);
    const auto to = static_cast<std::size_t>(taken.offsets[i]), end = static_cast<std::size_t>(taken.offsets[i + 1]);
    if (end == to) continue;
    std::memcpy(taken.values.data() + to * item_size, values + first * item_size, (end - to) * item_size);
  }
  return true;
}

}  // namespace fleet::data
