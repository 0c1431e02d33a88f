#include "cache/row_cache.h"

#include <vector>

#include "check.h"

namespace {

using Keys = std::vector<std::int64_t>;
using Floats = std::vector<float>;

Keys missing(fleet::RowCache& cache, const Keys& keys, std::uint32_t now) {
  Floats out(keys.size(), -1.0f);
  return cache.take(keys.data(), keys.size(), now, out.data()).missing;
}

void put(fleet::RowCache& cache, const Keys& keys, const Floats& rows, std::uint32_t now) {
  cache.put(keys.data(), keys.size(), rows.data(), now, 10 + now);
}

}  // namespace

TEST(row_cache_bounds_age) {
  fleet::RowCache cache(1, 100, 2);
  CHECK((missing(cache, {5, 6}, 7) == Keys{0, 1}));
  put(cache, {5}, {1.0f}, 7);
  put(cache, {6}, {2.0f}, 8);
  Floats out(3, -1.0f);
  const Keys keys = {5, 9, 6};
  const auto taken = cache.take(keys.data(), 3, 9, out.data());
  CHECK((taken.missing == Keys{1} && out == Floats{1.0f, -1.0f, 2.0f} && taken.version == 17));
  CHECK((missing(cache, {5, 6}, 10) == Keys{0}));  // 5 is three steps old
  put(cache, {5}, {3.0f}, 10);
  put(cache, {5}, {4.0f}, 9);  // overtaken
  CHECK(cache.take(keys.data(), 1, 12, out.data()).missing.empty() && out[0] == 3.0f);
  const auto& counts = cache.counts();
  CHECK(counts.hits == 4 && counts.misses == 3 && counts.refreshed == 1 && counts.oldest == 2);
  CHECK(counts.age_steps == 2 + 1 + 2 + 2);
  cache.clear();
  CHECK(cache.size() == 0 && missing(cache, {5}, 10).size() == 1);
}

TEST(row_cache_steps_wrap) {
  fleet::RowCache cache(1, 100, 2);
  put(cache, {5}, {1.0f}, 0xffffffffu);
  CHECK(missing(cache, {5}, 1).empty());
  CHECK(missing(cache, {5}, 2).size() == 1);
}

TEST(row_cache_without_staleness_or_room) {
  fleet::RowCache none(1, 100, 0), small(1, 0, 5);
  put(none, {5}, {1.0f}, 1);
  put(small, {5}, {1.0f}, 1);
  CHECK(missing(none, {5}, 1).size() == 1 && missing(small, {5}, 1).size() == 1);
}

TEST(row_cache_keeps_what_is_used) {
  fleet::RowCache cache(2, 64, 1000000);
  const Floats row = {1.0f, 2.0f};
  for (std::int64_t key = 0; key < 32; ++key) cache.put(&key, 1, row.data(), 0, 0);
  Floats out(2);
  std::int64_t other = 1000;
  for (std::uint32_t now = 0; now < 2000; ++now) {
    for (std::int64_t key = 0; key < 32; ++key) CHECK(cache.take(&key, 1, now, out.data()).missing.empty());
    for (int i = 0; i < 10; ++i, ++other) cache.put(&other, 1, row.data(), now, 0);
    CHECK(cache.size() <= 64);
  }
  CHECK(cache.counts().evicted > 1000);
}
