#include "keys/merge.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "check.h"

TEST(merge) {
  for (const std::size_t row_bytes : {0u, 1u, 2u, 3u, 4u, 8u, 16u, 32u, 40u, 64u, 100u, 128u}) {
    std::vector<unsigned char> rows(5 * row_bytes);
    std::iota(rows.begin(), rows.end(), static_cast<unsigned char>(0));
    const fleet::Piece pieces[] = {{rows.data(), 2}, {nullptr, 0}, {rows.data() + 2 * row_bytes, 3}};
    const std::int64_t order[] = {4, 0, 3, 1, 2};
    std::vector<unsigned char> out(rows.size(), 255);
    CHECK(fleet::merge(pieces, 3, row_bytes, order, out.data()));
    for (std::size_t i = 0; i < 5; ++i) {
      for (std::size_t b = 0; b < row_bytes; ++b) {
        CHECK(out[static_cast<std::size_t>(order[i]) * row_bytes + b] == rows[i * row_bytes + b]);
      }
    }
    for (const std::int64_t bad : {std::int64_t{5}, std::int64_t{1}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
      const std::int64_t bad_order[] = {4, 0, bad, 1, 2};
      CHECK(!fleet::merge(pieces, 3, row_bytes, bad_order, out.data()));
    }
  }
  CHECK(fleet::merge(nullptr, 0, 4, nullptr, nullptr));
}
