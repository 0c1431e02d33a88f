// Spans of many threads come out whole, in the order of their threads; what finds no room is counted.
#include <map>
#include <thread>
#include <vector>

#include "check.h"
#include "trace/ring.h"

using fleet::trace::Here;
using fleet::trace::Scope;
using fleet::trace::Span;
using fleet::trace::What;

TEST(trace_rings) {
  fleet::trace::take();
  {
    const Scope nothing(What::kTablePull);
  }
  CHECK(fleet::trace::take().empty());  // it is off

  fleet::trace::switch_on(true);
  {
    const Scope stranger(What::kTablePull);
  }
  CHECK(fleet::trace::take().empty());  // no request that is traced
  {
    const Here here(true);
    const Scope outer(What::kAnswer);
    {
      const Scope inner(What::kTablePull, 3, 7);
    }
    const Here not_here(false);
    const Scope other(What::kTablePush);
  }
  std::vector<Span> found = fleet::trace::take();
  CHECK(found.size() == 2);
  CHECK(found[0].what == What::kTablePull && found[0].about[0] == 3 && found[0].about[1] == 7);
  CHECK(found[1].begin_ns <= found[0].begin_ns && found[0].end_ns <= found[1].end_ns);

  constexpr std::uint64_t kThreads = 4, kSpans = 20'000;
  const std::uint64_t lost_before = fleet::trace::num_lost();
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      for (std::uint64_t i = 0; i < kSpans; ++i) fleet::trace::add(What::kDense, 1, 2, {t, i});
    });
  }
  std::map<std::uint64_t, std::vector<std::uint64_t>> of_thread;
  std::uint64_t num_found = 0;
  const auto drain = [&] {
    for (const Span& one : fleet::trace::take()) {
      CHECK(one.begin_ns == 1 && one.end_ns == 2);
      of_thread[one.about[0]].push_back(one.about[1]);
      ++num_found;
    }
  };
  for (int i = 0; i < 50; ++i) drain();
  for (std::thread& one : threads) one.join();
  drain();
  CHECK(num_found + fleet::trace::num_lost() - lost_before == kThreads * kSpans);
  CHECK(num_found > 0);
  for (const auto& [thread, numbers] : of_thread) {
    for (std::size_t i = 1; i < numbers.size(); ++i) CHECK(numbers[i - 1] < numbers[i]);
  }
  fleet::trace::switch_on(false);
}
