#include "copies/copies.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "check.h"

namespace {

using Keys = std::vector<std::int64_t>;
using Floats = std::vector<float>;

fleet::Copies make_copies() {
  fleet::CopyOptions options;
  options.name = "ads";
  options.width = 1;
  options.rule = fleet::make_rule("sgd", {{"lr", 1.0}});
  return fleet::Copies(std::move(options));
}

void fetch(fleet::Copies& copies, const Keys& keys, const Floats& rows) {
  fleet::Located located = copies.locate(keys.data(), keys.size());
  const Keys positions = copies.missing(located);
  Floats fetched, out(keys.size());
  for (const std::int64_t at : positions) fetched.push_back(rows[static_cast<std::size_t>(at)]);
  copies.pull(keys.data(), located, positions.data(), positions.size(), fetched.data(), out.data());
}

Floats read(const fleet::Copies& copies, const Keys& keys) {
  Floats out(keys.size(), -1.0f);
  copies.pull(copies.locate(keys.data(), keys.size()), out.data());
  return out;
}

// Adds `amount` to a copy, some times.
void learn(fleet::Copies& copies, std::int64_t key, float amount, int times) {
  const float grad = -amount;
  for (int i = 0; i < times; ++i) copies.push(&key, copies.locate(&key, 1), &grad, 1.0, false);
}

using Found = std::shared_ptr<fleet::Copies::Difference>;

void merge(fleet::Copies& copies, const Found& found, std::size_t i, float row, double awaited) {
  copies.merge(&found->keys[i], 1, &found->sent[i], &found->touches[i], &row, 4, awaited);
}

}  // namespace

TEST(copies_sharers) {
  for (const std::uint32_t workers : {1u, 2u, 4u, 100u}) {
    CHECK(fleet::sharers(1, workers) == 1.0);
    CHECK(fleet::sharers(0xffffffffu, workers) == workers);
  }
  CHECK(fleet::sharers(2, 4) == 2.5);
  CHECK(fleet::sharers(3, 4) == 3.25);
}

TEST(copies_are_made_once) {
  fleet::Copies copies = make_copies();
  fetch(copies, {7, -1}, {1.0f, 2.0f});
  CHECK(copies.size() == 2);
  const Keys all = {-1, 5, 7};
  CHECK((copies.missing(copies.locate(all.data(), 3)) == Keys{1}));
  CHECK((read(copies, all) == Floats{2.0f, 0.0f, 1.0f}));
  learn(copies, 7, 10.0f, 1);
  fetch(copies, {7}, {100.0f});
  CHECK((read(copies, {7}) == Floats{11.0f}));
  bool refused = false;
  try {
    learn(copies, 5, 1.0f, 1);
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  CHECK(refused);
  copies.clear();
  CHECK(copies.size() == 0 && copies.difference(4, 2)->keys.size() == 0);
}

// Touched once: all of it goes, and the servers are asked again.
TEST(copies_touched_once) {
  fleet::Copies copies = make_copies();
  fetch(copies, {1}, {0.0f});
  learn(copies, 1, 8.0f, 1);
  auto found = copies.difference(4, 2);
  CHECK(found->keys.size() == 1 && found->sent[0] == 8.0f && found->touches[0] == 1);
  const std::int64_t key = 1;
  CHECK(copies.missing(copies.locate(&key, 1)).empty());  // it is under way
  copies.age();
  CHECK(copies.missing(copies.locate(&key, 1)).size() == 1);
  fetch(copies, {1}, {9.0f});
  CHECK((read(copies, {1}) == Floats{9.0f}));
  CHECK(copies.missing(copies.locate(&key, 1)).empty());
  learn(copies, 1, 1.0f, 1);
  found = copies.difference(4, 2);
  CHECK(found->sent[0] == 1.0f);
  learn(copies, 1, 2.0f, 1);
  copies.age();  // it has been touched since
  CHECK(copies.missing(copies.locate(&key, 1)).empty());
  CHECK(copies.difference(4, 2)->sent[0] == 2.0f);
}

// Under Adagrad, whose steps are shorter the more a row has learned, by the root of that number.
TEST(copies_of_a_rule_that_slows_down) {
  fleet::CopyOptions options;
  options.name = "ads";
  options.width = 1;
  options.rule = fleet::make_rule("adagrad", {{"lr", 1.0}, {"eps", 0.0}});
  fleet::Copies copies(std::move(options));
  fetch(copies, {1, 2}, {0.0f, 0.0f});
  learn(copies, 1, 8.0f, 1);
  learn(copies, 2, 4.0f, 2);
  const auto found = copies.difference(4, 1);
  CHECK(found->keys[0] == 1 && found->sent[0] == 1.0f);
  const float own = read(copies, {2})[0];
  CHECK(found->sent[1] == own / static_cast<float>(std::sqrt(2.5)));
  merge(copies, found, 1, 3.0f, 1.0);  // others have been heard of: it keeps what they have yet to send
  CHECK(std::fabs(read(copies, {2})[0] - (3.0f + own - found->sent[1])) < 1e-5f);
}

// Four workers that each draw a row all the way to one target in a window go past it together, and meet there in the
// end.
TEST(copies_of_a_rule_that_slows_down_meet) {
  constexpr float kTarget = 2.5f;
  const std::int64_t key = 1;
  std::vector<fleet::Copies> all;
  std::vector<int> heard(4, 0);
  for (int i = 0; i < 4; ++i) {
    fleet::CopyOptions options;
    options.name = "ads";
    options.width = 1;
    options.rule = fleet::make_rule("adagrad", {{"lr", 0.5}});
    all.emplace_back(std::move(options));
    fetch(all.back(), {key}, {0.0f});
  }
  float server = 0.0f;
  int exchanges = 0;
  for (int round = 0; round < 20; ++round) {
    for (fleet::Copies& one : all) {
      for (int i = 0; i < 16; ++i) {
        const float grad = read(one, {key})[0] - kTarget;
        one.push(&key, one.locate(&key, 1), &grad, 0.5, false);
      }
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Found found = all[i].difference(4, 1);
      server += found->sent[0];
      const double awaited = 1.0 - std::min(++exchanges - heard[i] - 1, 3) / 3.0;
      heard[i] = exchanges;
      merge(all[i], found, 0, server, awaited);
    }
    CHECK(server > 0.0f && server < 2 * kTarget);
  }
  CHECK(std::fabs(server - kTarget) < 0.1f);
}

TEST(copies_that_others_change_too) {
  fleet::Copies copies = make_copies();
  fetch(copies, {1}, {0.0f});
  learn(copies, 1, 5.0f, 2);
  const auto found = copies.difference(4, 2);
  CHECK(found->sent[0] == 4.0f);  // 10 / 2.5
  learn(copies, 1, 1.0f, 2);      // while it is under way
  merge(copies, found, 0, 24.0f, 0.5);
  // The servers' 24, half of the 6 that were not sent, and what was learned since.
  CHECK((read(copies, {1}) == Floats{29.0f}));
  CHECK(copies.difference(4, 2)->sent[0] == 0.8f);  // 2 / 2.5
}

TEST(copies_that_nobody_else_changes) {
  fleet::Copies copies = make_copies();
  fetch(copies, {1}, {0.0f});
  float now = 0.0f;
  // The row came in the window itself; nobody else has been heard of, and may be late; all have been.
  for (const double awaited : {0.0, 1.0, 0.0}) {
    learn(copies, 1, 5.0f, 2);
    const auto found = copies.difference(4, 2);
    CHECK(found->sent[0] == 4.0f);
    now += 4.0f;
    merge(copies, found, 0, now, awaited);
    CHECK(copies.difference(4, 2)->keys.size() == 0);
  }
  CHECK((read(copies, {1}) == Floats{30.0f}));
  learn(copies, 1, 0.5f, 2);
  auto found = copies.difference(4, 2);
  CHECK(found->sent[0] == 19.0f);  // all of 30 - 12 + 1
  merge(copies, found, 0, 41.0f, 0.0);
  CHECK((read(copies, {1}) == Floats{41.0f}));  // somebody has added 10
  learn(copies, 1, 5.0f, 2);
  CHECK(copies.difference(4, 2)->sent[0] == 4.0f);
}

// Two batches may have been looked up before the rows of the first came; and all may have been cleared since.
TEST(copies_located_before) {
  fleet::Copies copies = make_copies();
  const Keys keys = {3, 9};
  const Floats rows = {1.0f, 2.0f}, others = {5.0f, 6.0f};
  const Keys positions = {0, 1};
  fleet::Located first = copies.locate(keys.data(), 2), second = first;
  Floats out(2);
  copies.pull(keys.data(), first, positions.data(), 2, rows.data(), out.data());
  copies.pull(keys.data(), second, positions.data(), 2, others.data(), out.data());
  CHECK(copies.size() == 2 && (out == rows) && second.numbers == first.numbers);
  const Floats grads = {-1.0f, -1.0f};
  fleet::Located third;  // of nothing: a push finds its keys
  copies.locate_again(keys.data(), 2, third);
  copies.push(keys.data(), third, grads.data(), 1.0, false);
  CHECK((read(copies, keys) == Floats{2.0f, 3.0f}));
  copies.clear();
  copies.locate_again(keys.data(), 2, first);
  CHECK(first.numbers == std::vector<std::uint32_t>(2, fleet::Index::kNone));
}

TEST(copies_difference_grouped) {
  fleet::Copies copies = make_copies();
  Keys keys;
  for (std::int64_t key = 100; key > 0; --key) keys.push_back(key);
  fetch(copies, keys, Floats(100, 0.0f));
  for (int window = 0; window < 2; ++window) {
    for (const std::int64_t key : keys) learn(copies, key, static_cast<float>(key), 1);
    const Found found = copies.difference(1, 3);
    CHECK(found->keys.size() == 100 && found->offsets[0] == 0 && found->offsets[3] == 100);
    for (std::size_t server = 0; server < 3; ++server) {
      for (auto i = static_cast<std::size_t>(found->offsets[server]);
           i < static_cast<std::size_t>(found->offsets[server + 1]); ++i) {
        CHECK(fleet::server_of(found->keys[i], 3) == server);
        CHECK(found->sent[i] == static_cast<float>(found->keys[i]));
        CHECK(i == static_cast<std::size_t>(found->offsets[server]) || found->keys[i - 1] < found->keys[i]);
      }
    }
  }
  for (const std::int64_t key : keys) learn(copies, key, 1.0f, 1);
  const Found held = copies.difference(1, 1);
  const Floats before(held->sent.data(), held->sent.data() + 100);
  for (const std::int64_t key : keys) learn(copies, key, 2.0f, 1);
  CHECK(copies.difference(1, 1) != held);  // somebody still reads it
  CHECK((before == Floats(held->sent.data(), held->sent.data() + 100)));
}
