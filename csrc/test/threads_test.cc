// Calls from several threads share nothing; the thread sanitizer watches.
#include <thread>
#include <vector>

#include "check.h"
#include "inputs.h"
#include "keys/split.h"
#include "keys/unique.h"

TEST(threads) {
  const auto inputs = hard_inputs();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&inputs] {
      for (const auto& keys : inputs) {
        const fleet::Unique result = fleet::unique(keys.data(), keys.size());
        CHECK(result.keys[static_cast<std::size_t>(result.inverse[0])] == keys[0]);
        CHECK(fleet::split(keys.data(), keys.size(), 3).offsets[3] == static_cast<std::int64_t>(keys.size()));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}
