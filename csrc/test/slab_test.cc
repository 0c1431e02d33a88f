#include "table/slab.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "check.h"

namespace {

void fill(fleet::Slab& slab, std::uint32_t row, std::size_t bytes, bool has_clicks) {
  std::memset(slab.row(row), static_cast<int>(row % 251), bytes);
  slab.mark(row) = {row, ~row};
  if (has_clicks) slab.clicks(row) = {static_cast<float>(row), 0.5f};
}

void check(const fleet::Slab& slab, std::uint32_t row, std::size_t bytes, bool has_clicks) {
  const std::byte* data = slab.row(row);
  CHECK(std::all_of(data, data + bytes, [&](std::byte b) { return b == static_cast<std::byte>(row % 251); }));
  CHECK(slab.mark(row).seen == row && slab.mark(row).step == ~row);
  if (has_clicks) CHECK(slab.clicks(row).shows == static_cast<float>(row) && slab.clicks(row).clicks == 0.5f);
}

}  // namespace

TEST(slab_rows_do_not_meet) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{4}, std::size_t{12}, std::size_t{128}, std::size_t{1000},
                                  std::size_t{100000}, std::size_t{3000000}}) {
    for (const bool has_clicks : {false, true}) {
      fleet::Arena arena;
      fleet::Slab slab(arena, bytes, has_clicks);
      CHECK(slab.bytes_each() == bytes + (has_clicks ? 16 : 8));
      const std::uint32_t n = bytes > 10000 ? 20 : 5000;
      for (std::uint32_t i = 0; i < n; ++i) {
        CHECK(slab.take() == i);
        fill(slab, i, bytes, has_clicks);
      }
      for (std::uint32_t i = 0; i < n; ++i) check(slab, i, bytes, has_clicks);
      CHECK(slab.num_used() == n);
    }
  }
}

TEST(slab_uses_rows_again) {
  fleet::Arena arena;
  fleet::Slab slab(arena, 8, false);
  for (int i = 0; i < 100; ++i) slab.take();
  for (std::uint32_t row = 0; row < 100; row += 2) slab.give_back(row);
  CHECK(slab.num_used() == 50);
  std::set<std::uint32_t> again;
  for (int i = 0; i < 50; ++i) again.insert(slab.take());
  CHECK(again.size() == 50 && *again.rbegin() == 98);
  CHECK(slab.take() == 100);
}

TEST(arena_gives_zeros) {
  fleet::Arena arena;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      // Past the size from which large pages are asked for, and blocks larger than a region.
      for (int i = 0; i < 60; ++i) {
        const std::size_t bytes = i == 30 ? std::size_t{40} << 20 : std::size_t{1} << 20;
        std::byte* block = arena.allocate(bytes);
        CHECK(reinterpret_cast<std::uintptr_t>(block) % 4096 == 0);
        CHECK(block[0] == std::byte{0} && block[bytes - 1] == std::byte{0});
        block[0] = block[bytes - 1] = std::byte{1};
      }
    });
  }
  for (auto& thread : threads) thread.join();
}
