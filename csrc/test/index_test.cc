#include "table/index.h"

#include <limits>
#include <random>
#include <unordered_map>
#include <vector>

#include "check.h"

namespace {

using fleet::Index;
using fleet::mix64;
using Keys = std::vector<std::int64_t>;
using Model = std::unordered_map<std::int64_t, std::uint32_t>;

std::uint32_t place_of(std::int64_t key) { return Index::place(mix64(key)); }

// The number whose product with an odd `a` is 1.
std::uint64_t inverse_of(std::uint64_t a) {
  std::uint64_t x = a;
  for (int i = 0; i < 6; ++i) x *= 2 - a * x;
  return x;
}

std::uint64_t undo_shift(std::uint64_t h, int bits) {
  std::uint64_t x = h;
  for (int i = 0; i < 64 / bits; ++i) x = h ^ (x >> bits);
  return x;
}

// The i-th key that is looked for at `place`.
std::int64_t key_at(std::uint32_t place, std::uint32_t i) {
  std::uint64_t h = ((std::uint64_t{place} << 32) | i) * inverse_of(0x9e3779b97f4a7c15u);
  h = undo_shift(h, 31) * inverse_of(0x94d049bb133111ebu);
  h = undo_shift(h, 27) * inverse_of(0xbf58476d1ce4e5b9u);
  const auto key = static_cast<std::int64_t>(undo_shift(h, 30) - 0x9e3779b97f4a7c15u);
  CHECK(place_of(key) == place);
  return key;
}

std::uint32_t find(const Index& index, std::int64_t key) { return index.find(key, place_of(key)); }

void check_same(const Index& index, const Model& model) {
  CHECK(index.size() == model.size());
  std::size_t visited = 0;
  index.for_each([&](std::int64_t key, std::uint32_t row) {
    CHECK(model.at(key) == row);
    ++visited;
  });
  CHECK(visited == model.size());
  for (const auto& [key, row] : model) CHECK(find(index, key) == row);
}

// Inserts, removes and looks for keys of `keys`; `fullness` is the share of them that is there after a while.
void live(const Keys& keys, int steps, double fullness, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Index index;
  Model model;
  for (int step = 0; step < steps; ++step) {
    const std::int64_t key = keys[random() % keys.size()];
    const auto row = static_cast<std::uint32_t>(random() % 1000);
    const auto known = model.find(key);
    CHECK(find(index, key) == (known == model.end() ? Index::kNone : known->second));
    if (static_cast<double>(random() >> 11) * 0x1p-53 < fullness) {
      if (known == model.end()) {
        index.insert(key, place_of(key), row);
        model.emplace(key, row);
      }
    } else {
      CHECK(index.erase(key, place_of(key)) == (known != model.end()));
      model.erase(key);
    }
    if (random() % 1000 == 0) index.reserve(random() % (2 * keys.size()));
    if (random() % 1000 == 0) index.fit();
    if (random() % 500 == 0) check_same(index, model);
  }
  check_same(index, model);
}

}  // namespace

TEST(index_is_a_map) {
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  Keys few = {kMin, kMax, 0, -1, 1, kMin + 1, kMax - 1}, dense, any, one_bucket, last_bucket, pile;
  std::mt19937_64 random(3);
  for (std::uint32_t i = 0; i < 3000; ++i) {
    dense.push_back(static_cast<std::int64_t>(i) - 1500);
    any.push_back(static_cast<std::int64_t>(random()));
    pile.push_back(key_at(i << 8, i));
    if (i < 40) one_bucket.push_back(key_at(0x80000000u, i));
    if (i < 40) last_bucket.push_back(key_at(0xffffffffu, i));  // wraps around
  }
  for (const Keys* keys : {&few, &dense, &any, &one_bucket, &last_bucket, &pile}) {
    for (const double fullness : {0.3, 0.6, 0.95}) live(*keys, 10000, fullness, 11);
  }
}

TEST(index_grows_and_shrinks) {
  Index index;
  Model model;
  CHECK(find(index, 0) == Index::kNone && !index.erase(0, place_of(0)) && index.bytes() == 0);
  std::mt19937_64 random(5);
  for (std::uint32_t i = 0; i < 200000; ++i) {  // past the size from which it is mapped
    const auto key = static_cast<std::int64_t>(random());
    index.insert(key, place_of(key), i);
    model[key] = i;
    const std::size_t counts = Index::count_bytes(index.size());
    CHECK(index.bytes() <= (index.size() < 30000 ? counts + index.size() * 4 + 640 : counts));
  }
  check_same(index, model);
  std::size_t left = 0;
  for (auto it = model.begin(); it != model.end();) {
    if (left++ % 10 == 0) {
      ++it;
      continue;
    }
    CHECK(index.erase(it->first, place_of(it->first)));
    it = model.erase(it);
  }
  check_same(index, model);
  CHECK(index.is_sparse());
  index.fit();
  CHECK(!index.is_sparse() && index.bytes() <= 15 * model.size());
  check_same(index, model);
  index.reserve(300000);
  const std::size_t bytes = index.bytes();
  for (std::uint32_t i = 20000; i < 300000; ++i) {
    const auto key = static_cast<std::int64_t>(random());
    index.insert(key, place_of(key), i);
    model[key] = i;
  }
  CHECK(index.bytes() == bytes);
  check_same(index, model);
}

// Where keys come and go, buckets that a key once passed over must not make every search long, or endless.
TEST(index_lives_with_coming_and_going) {
  for (const std::uint32_t size : {3u, 17u, 40u, 5000u}) {
    Index index;
    std::mt19937_64 random(size);
    Keys keys;
    for (std::uint32_t i = 0; i < size * 50; ++i) {
      keys.push_back(static_cast<std::int64_t>(random()));
      index.insert(keys.back(), place_of(keys.back()), i);
      if (i >= size) CHECK(index.erase(keys[i - size], place_of(keys[i - size])));
      CHECK(find(index, static_cast<std::int64_t>(random())) == Index::kNone);
    }
    CHECK(index.size() == size);
  }
}

// Rows that were dumped come back in the order of the buckets, the worst there is for an index that is still small.
TEST(index_takes_keys_in_its_own_order) {
  Index from, to;
  std::mt19937_64 random(9);
  for (std::uint32_t i = 0; i < 100000; ++i) {
    const auto key = static_cast<std::int64_t>(random());
    from.insert(key, place_of(key), i);
  }
  to.reserve(from.size());
  from.for_each([&](std::int64_t key, std::uint32_t row) { to.insert(key, place_of(key), row); });
  from.for_each([&](std::int64_t key, std::uint32_t row) { CHECK(find(to, key) == row); });
}
