// Some records of a ragged column, in any order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "keys/array.h"

namespace fleet::data {

struct Taken {
  Array<std::byte> values;
  Array<std::int64_t> offsets;
};

// Record r has the values offsets[r] .. offsets[r + 1] of num_values, each item_size bytes. False if an index names no
// record or an offset no value; `taken` is then of no use.
bool take_ragged(const std::byte* values, std::size_t num_values, std::size_t item_size, const std::int64_t* offsets,
                 std::size_t num_records, const std::int64_t* index, std::size_t n, Taken& taken);

}  // namespace fleet::data
