// A team does every part once, on the threads it was given, and outlives exceptions, nesting and a fork.
#include "threads/team.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

// Whether every part was done once.
bool does_all(fleet::Team& team, std::size_t num_parts) {
  std::vector<std::atomic<int>> done(num_parts);
  team.parallel_for(num_parts, [&](std::size_t part) { ++done[part]; });
  for (const auto& times : done) {
    if (times != 1) return false;
  }
  return true;
}

}  // namespace

TEST(team_does_every_part_once) {
  for (std::size_t size : {1, 2, 5}) {
    fleet::Team team(size);
    for (std::size_t num_parts : {0, 1, 2, 3, 64, 1000}) CHECK(does_all(team, num_parts));
  }
}

TEST(team_of_one_has_no_thread) {
  fleet::Team team(1);
  const auto me = std::this_thread::get_id();
  team.parallel_for(10, [&](std::size_t) { CHECK(std::this_thread::get_id() == me); });
}

TEST(team_that_was_roused_works_and_ends_as_ever) {
  using std::chrono::microseconds;
  for (std::size_t size : {1, 2, 5}) {
    fleet::Team team(size);
    team.rouse(microseconds(0));
    for (int i = 0; i < 50; ++i) {
      team.rouse(microseconds(i % 3 == 0 ? 20 : 2000));
      if (i % 7 == 0) std::this_thread::sleep_for(microseconds(100));
      CHECK(does_all(team, 64));
      CHECK(does_all(team, 2));
    }
    team.rouse(microseconds(5000));
  }
  fleet::Team never_used(4);
  never_used.rouse(microseconds(1000));
}

TEST(team_uses_its_threads) {
  fleet::Team team(3);
  std::atomic<int> here{0};
  std::mutex mutex;
  std::set<std::thread::id> who;
  // Each part waits until there are three: it would wait forever on fewer threads.
  team.parallel_for(3, [&](std::size_t) {
    ++here;
    while (here < 3) std::this_thread::yield();
    const std::lock_guard<std::mutex> lock(mutex);
    who.insert(std::this_thread::get_id());
  });
  CHECK(who.size() == 3);
  CHECK(who.count(std::this_thread::get_id()) == 1);
}

TEST(team_hands_exceptions_back) {
  fleet::Team team(4);
  for (int i = 0; i < 20; ++i) {
    std::string caught;
    std::atomic<int> others{0};
    try {
      team.parallel_for(100, [&](std::size_t part) {
        if (part == 7) throw std::runtime_error("seven");
        ++others;
      });
    } catch (const std::runtime_error& error) {
      caught = error.what();
    }
    CHECK(caught == "seven");
    CHECK(others < 100);
    CHECK(does_all(team, 50));
  }
}

TEST(team_calls_may_overlap_and_nest) {
  fleet::Team team(3);
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&team] {
      for (int i = 0; i < 50; ++i) {
        std::atomic<int> total{0};
        team.parallel_for(
            5, [&](std::size_t) { team.parallel_for(4, [&](std::size_t part) { total += static_cast<int>(part); }); });
        CHECK(total == 30);
      }
    });
  }
  for (auto& caller : callers) caller.join();
}

TEST(team_is_whole_in_a_forked_child) {
#if !defined(__SANITIZE_THREAD__)  // which lets no thread start in a child of several threads
  fleet::Team::set_shared_size(3);
  CHECK(does_all(fleet::Team::shared(), 30));
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // for what is stuck
    _exit(does_all(fleet::Team::shared(), 30) ? 0 : 1);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(does_all(fleet::Team::shared(), 30));
#endif
}

TEST(team_slices_cover_everything) {
  for (std::size_t n : {0, 1, 7, 64, 1001}) {
    for (std::size_t num_parts : {1, 2, 3, 8}) {
      std::size_t next = 0;
      for (std::size_t part = 0; part < num_parts; ++part) {
        const fleet::Slice slice = fleet::slice_of(n, num_parts, part);
        CHECK(slice.begin == next && slice.end >= slice.begin && slice.end - slice.begin <= n / num_parts + 1);
        next = slice.end;
      }
      CHECK(next == n);
    }
  }
}
