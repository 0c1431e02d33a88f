// Parts that are sent ahead of a call: whatever is claimed of them, the server reads what the tensors hold.
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "check.h"
#include "plane/ahead.h"
#include "plane/client.h"
#include "plane/server.h"

namespace {

using namespace fleet::plane;

// Every call is answered with its own tensors.
class Mirror {
 public:
  explicit Mirror(std::size_t max_bytes = std::size_t{1} << 30, std::int64_t ahead_ms = 60'000)
      : server_(
            options(max_bytes, ahead_ms),
            [](Reason, std::shared_ptr<Call> call) { call->reply("", call->message().tensors); },
            [](const std::string&, const std::string&) {}) {
    for (std::size_t i = 0; i < 2; ++i) threads_.emplace_back([this, i] { server_.run(i); });
  }
  ~Mirror() {
    server_.stop();
    for (std::thread& one : threads_) one.join();
  }
  std::shared_ptr<Client> client() { return Client::to_tcp("127.0.0.1", server_.port(), "", 5000); }

 private:
  static ServerOptions options(std::size_t max_bytes, std::int64_t ahead_ms) {
    ServerOptions made;
    made.address = "127.0.0.1";
    made.budget = std::make_shared<Budget>(max_bytes);
    made.ahead_ms = ahead_ms;
    return made;
  }
  Server server_;
  std::vector<std::thread> threads_;
};

Extent extent(const std::string& bytes, std::size_t begin = 0, std::size_t size = std::string::npos) {
  return {reinterpret_cast<const std::byte*>(bytes.data()) + begin, std::min(size, bytes.size() - begin)};
}

std::string noise(std::size_t size, unsigned seed) {
  std::mt19937 draw(seed);
  std::string made(size, ' ');
  for (char& one : made) one = static_cast<char>(draw());
  return made;
}

std::shared_ptr<Answer> send(Client& client, const std::vector<std::string>& tensors,
                             const std::vector<Claim>& claims = {}) {
  std::vector<std::vector<Extent>> extents;
  for (const std::string& one : tensors) extents.push_back({extent(one)});
  const auto answer = client.call(Method::kPush, "", extents, 0, claims);
  CHECK(answer->wait(30000));
  return answer;
}

void check_same(const Answer& answer, const std::vector<std::string>& tensors) {
  if (answer.state() != Answer::State::kReply) std::fprintf(stderr, "%s\n", answer.text().c_str());
  CHECK(answer.state() == Answer::State::kReply);
  CHECK(answer.tensors().size() == tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Extent& found = answer.tensors()[i];
    CHECK(found.size == tensors[i].size() && std::memcmp(found.data, tensors[i].data(), found.size) == 0);
  }
}

}  // namespace

TEST(plane_ahead_gaps) {
  const auto gaps = [](const std::vector<Part>& parts, std::size_t size) {
    std::vector<Gap> found;
    if (!gaps_of(parts, size, found)) return std::string("no");
    std::string text;
    for (const Gap& one : found) text += std::to_string(one.begin) + "+" + std::to_string(one.size) + " ";
    return text;
  };
  CHECK(gaps({}, 10) == "0+10 ");
  CHECK(gaps({}, 0).empty());
  CHECK(gaps({{1, 0, 10}}, 10).empty());
  CHECK(gaps({{1, 2, 3}, {2, 5, 1}, {3, 8, 2}}, 10) == "0+2 6+2 ");
  const std::uint64_t huge = ~std::uint64_t{0};
  for (const Part& bad : {Part{1, 0, 0}, Part{1, 0, 11}, Part{1, 10, 1}, Part{1, 11, 1}, Part{1, 5, huge},
                          Part{1, huge, 1}, Part{1, huge, huge}, Part{1, 0, huge}}) {
    CHECK(gaps({bad}, 10) == "no");
  }
  CHECK(gaps({{1, 5, 2}, {2, 6, 1}}, 10) == "no");
  CHECK(gaps({{1, 5, 2}, {2, 1, 1}}, 10) == "no");
}

TEST(plane_ahead_joined) {
  Mirror mirror;
  const auto client = mirror.client();
  std::mt19937 draw(7);
  for (unsigned round = 0; round < 40; ++round) {
    std::vector<std::string> tensors{noise(draw() % 3000, round), noise(100'000 + draw() % 300'000, round + 1), "",
                                     noise(1 + draw() % 200'000, round + 2)};
    std::vector<Claim> claims;
    std::size_t expected = 0;
    for (const std::size_t tensor : {1, 3}) {
      std::size_t begin = 0;
      while (begin < tensors[tensor].size()) {  // some parts, from the begin to the end, with and without gaps
        const std::size_t size = std::min<std::size_t>(1 + draw() % 90'000, tensors[tensor].size() - begin);
        if (draw() % 3 != 0) {
          const std::size_t half = size / 2;
          const auto number =
              client->ahead({extent(tensors[tensor], begin, half), extent(tensors[tensor], begin + half, size - half)});
          CHECK(number != 0);
          claims.push_back({tensor, begin, number});
          expected += size;
        }
        begin += size;
      }
    }
    const bool is_changed = round % 4 == 3;
    if (is_changed && !claims.empty()) {  // what was sent ahead is wrong now, by one bit
      Claim& one = claims[draw() % claims.size()];
      tensors[one.tensor][one.begin] ^= 1;
    }
    if (round % 5 == 4) std::reverse(claims.begin(), claims.end());
    const auto answer = send(*client, tensors, claims);
    check_same(*answer, tensors);
    CHECK(is_changed && !claims.empty() ? answer->joined_bytes() < expected : answer->joined_bytes() == expected);
    check_same(*send(*client, tensors), tensors);
  }
}

TEST(plane_ahead_claims_that_are_wrong) {
  Mirror mirror;
  const auto client = mirror.client();
  const std::vector<std::string> tensors{noise(1000, 1), noise(1000, 2)};
  const auto number = [&] { return client->ahead({extent(tensors[0], 100, 300)}); };
  const auto check_none = [&](const Claim& claim) {
    const auto answer = send(*client, tensors, {claim});
    check_same(*answer, tensors);
    CHECK(answer->joined_bytes() == 0);
  };
  check_none({0, 101, number()});
  check_none({1, 100, number()});
  check_none({2, 100, number()});
  check_none({0, 800, number()});
  check_none({0, ~std::size_t{0}, number()});
  check_none({0, 100, 123'456'789});
  const auto forgotten = number();
  client->forget(forgotten);
  check_none({0, 100, forgotten});
  const auto used = number();
  CHECK(send(*client, tensors, {{0, 100, used}})->joined_bytes() == 300);
  check_none({0, 100, used});
  const auto other = mirror.client();
  const auto theirs = other->ahead({extent(tensors[0], 100, 300)});
  check_none({0, 100, theirs});
  // Of two that overlap one is joined.
  const auto answer = send(*client, tensors, {{0, 100, number()}, {0, 100, number()}});
  check_same(*answer, tensors);
  CHECK(answer->joined_bytes() == 300);
}

// In a message that is too small to be counted as under way: the server may still hold what it has just answered, and
// there would be no room beside it.
constexpr std::size_t kUncounted = (1 << 20) - 4096;

// A server keeps no more than it has room for, and refuses what it does not have; sent in full it is taken.
TEST(plane_ahead_has_bounds) {
  Mirror mirror(2 << 20);
  const auto client = mirror.client();
  const std::vector<std::string> tensors{noise(kUncounted, 1)};
  std::vector<Claim> claims;
  for (std::size_t begin = 0; begin < tensors[0].size(); begin += 1 << 17) {
    claims.push_back({0, begin, client->ahead({extent(tensors[0], begin, 1 << 17)})});
  }
  const auto answer = send(*client, tensors, claims);
  CHECK(answer->state() == Answer::State::kError && answer->code() == kResourceExhausted);
  CHECK(answer->joined_bytes() == tensors[0].size());
  check_same(*send(*client, tensors), tensors);
  CHECK(client->is_open());
  // And a client knows when it is too much.
  std::uint64_t last = 1;
  for (std::size_t i = 0; i <= kMaxParts; ++i) last = client->ahead({extent(tensors[0], i, 1)});
  CHECK(last == 0);
  check_same(*send(*client, tensors), tensors);
}

TEST(plane_ahead_never_claimed) {
  Mirror mirror(4 << 20, 200);
  const auto client = mirror.client(), other = mirror.client();
  const std::vector<std::string> tensors{noise(kUncounted, 1)};
  const auto number = client->ahead({extent(tensors[0])});
  check_same(*send(*client, {"x"}), {"x"});  // it has come
  // There is room for one only; another client's is kept when the first, which nobody comes for, is dropped.
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    const auto theirs = other->ahead({extent(tensors[0])});
    const auto answer = send(*other, tensors, {{0, 0, theirs}});
    if (answer->state() == Answer::State::kReply) break;
    CHECK(answer->code() == kResourceExhausted);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
  }
  const auto answer = send(*client, tensors, {{0, 0, number}});
  CHECK(answer->state() == Answer::State::kError && answer->code() == kResourceExhausted);
  check_same(*send(*client, tensors), tensors);
}

TEST(plane_ahead_of_many_threads) {
  Mirror mirror;
  const auto client = mirror.client();
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (unsigned i = 0; i < 60; ++i) {
        const std::vector<std::string> tensors{noise(50'000 + 1000 * i, thread * 100 + i)};
        const auto first = client->ahead({extent(tensors[0], 0, 20'000)});
        const auto second = client->ahead({extent(tensors[0], 30'000, 20'000)});
        if (i % 3 == 0) client->forget(first);
        check_same(*send(*client, tensors, {{0, 0, first}, {0, 30'000, second}}), tensors);
      }
    });
  }
  for (std::thread& one : threads) one.join();
  client->close();
  CHECK(client->ahead({extent("x")}) == 0);
}
