// A server and clients of the data plane in one process: every call gets one answer, whoever waits, closes or stops.
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "check.h"
#include "plane/client.h"
#include "plane/server.h"

namespace {

using namespace fleet::plane;

constexpr const char* kToken = "a token";

std::string unique_name() {
  static std::atomic<int> number{0};
  return "fleet-test-" + std::to_string(getpid()) + "-" + std::to_string(number++);
}

// How many come to a meeting.
constexpr std::size_t kMet = 20;

// A server without holdings: pulls are echoed, pushes wait for the version that is their number of bytes, and who comes
// to a meeting for the others.
class Echo {
 public:
  explicit Echo(std::size_t num_threads = 3) : name(unique_name()), server_(options(), decide(), refuse()) {
    server_.publish(0, true, true, "", Server::kNobody);
    for (std::size_t i = 0; i < num_threads; ++i) threads_.emplace_back([this, i] { server_.run(i); });
  }
  ~Echo() { stop(); }
  void stop() {
    server_.stop();
    for (std::thread& one : threads_) one.join();
    threads_.clear();
  }
  Server& operator*() { return server_; }

  std::shared_ptr<Client> client(int kind) {
    if (kind == 2) return Client::to_tcp("127.0.0.1", server_.port(), kToken, 5000);
    return Client::to_unix(name, kToken, 5000, kind == 0);
  }

  const std::string name;
  std::atomic<int> num_refused{0};

 private:
  ServerOptions options() {
    ServerOptions made;
    made.names = {name};
    made.address = "127.0.0.1";
    made.token = kToken;
    return made;
  }
  Refused refuse() {
    return [this](const std::string&, const std::string&) { ++num_refused; };
  }
  Decide decide() {
    return [this](Reason reason, std::shared_ptr<Call> call) {
      if (reason == Reason::kLate) {
        call->fail(4, "late");
      } else if (reason == Reason::kLook) {
        server_.park(call);
      } else if (reason == Reason::kMeet) {
        meet(std::move(call));
      } else if (call->method() == Method::kPush) {
        call->keep();
        server_.park(call, call->message().tensors.at(0).size, call->push().timeout_ms);
      } else {
        call->reply(call->message().header, call->message().tensors);
      }
    };
  }

  void meet(std::shared_ptr<Call> call) {
    std::vector<std::shared_ptr<Call>> told;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      met_.push_back(call);
      if (met_.size() == kMet) told.swap(met_);
    }
    for (const auto& one : told) one->reply("all", {});
    if (told.empty()) server_.park(std::move(call), 30000);  // maybe it has been answered since
  }

  Server server_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Call>> met_;
};

std::string push_header(std::uint8_t timeout_ms) {
  return {11 << 3, static_cast<char>(timeout_ms)};  // in one byte, so below 128
}

std::shared_ptr<Answer> call(Client& client, Method method, const std::string& header, const std::string& bytes,
                             std::size_t room = 0) {
  return client.call(method, header, {{{reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}}}, room);
}

void check_echo(Client& client, std::size_t size, char letter) {
  const std::string bytes(size, letter);
  const auto answer = call(client, Method::kPull, "", bytes, size);
  CHECK(answer->wait(30000));
  CHECK(answer->state() == Answer::State::kReply);
  CHECK(answer->tensors().size() == 1 && answer->tensors()[0].size == size);
  CHECK(std::memcmp(answer->tensors()[0].data, bytes.data(), size) == 0);
}

}  // namespace

TEST(plane_many_clients) {
  Echo echo;
  std::vector<std::thread> threads;
  for (int number = 0; number < 6; ++number) {
    threads.emplace_back([&, number] {
      auto client = echo.client(number % 3);
      for (std::size_t i = 0; i < 60; ++i) {
        if (i % 20 == 19) client = echo.client(number % 3);
        check_echo(*client, (i * 7919) % 100000, static_cast<char>('a' + number));
      }
    });
  }
  for (std::thread& one : threads) one.join();
  CHECK(echo.num_refused == 0);
}

TEST(plane_one_client_of_many_threads) {
  Echo echo;
  for (int kind = 0; kind < 3; ++kind) {
    const auto client = echo.client(kind);
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; ++number) {
      threads.emplace_back([&, number] {
        for (std::size_t i = 0; i < 50; ++i) check_echo(*client, i * 1000, static_cast<char>('a' + number));
      });
    }
    for (std::thread& one : threads) one.join();
  }
}

// Nobody who waits for a version is forgotten, whatever comes first, and whoever else is looked at.
TEST(plane_versions) {
  Echo echo;
  const auto client = echo.client(0);
  for (std::uint64_t version = 1; version <= 300; ++version) {
    std::vector<std::shared_ptr<Answer>> answers;
    std::thread publisher([&] {
      if (version % 7 == 0) (*echo).publish(version - 1, true, true, "", Server::kEverybody);
      (*echo).publish(version, true, true, "", version % 5 == 0 ? 0 : Server::kNobody);
    });
    for (int i = 0; i < 3; ++i) {
      answers.push_back(call(*client, Method::kPush, push_header(127), std::string(version, 'x')));
    }
    publisher.join();
    for (const auto& one : answers) {
      CHECK(one->wait(30000));
      CHECK(one->state() == Answer::State::kReply);
    }
  }
}

// All who meet are answered once, also while everybody is looked at, and where nothing can be trained.
TEST(plane_meetings) {
  Echo echo;
  std::atomic<bool> is_over{false};
  std::thread publisher([&] {
    while (!is_over) (*echo).publish(0, false, true, "", Server::kEverybody);
  });
  std::vector<std::shared_ptr<Client>> clients;
  for (int kind = 0; kind < 3; ++kind) clients.push_back(echo.client(kind));
  for (int round = 0; round < 30; ++round) {
    std::vector<std::shared_ptr<Answer>> answers;
    for (std::size_t i = 0; i < kMet; ++i) answers.push_back(call(*clients[i % 3], Method::kMeet, "", "x"));
    for (const auto& one : answers) {
      CHECK(one->wait(30000));
      CHECK(one->state() == Answer::State::kReply && one->header() == "all");
    }
  }
  is_over = true;
  publisher.join();
}

TEST(plane_late) {
  Echo echo;
  const auto answer = call(*echo.client(1), Method::kPush, push_header(1), std::string(1, 'x'));
  CHECK(answer->wait(30000));
  CHECK(answer->state() == Answer::State::kLost);  // its client has gone
  const auto client = echo.client(1);
  const auto late = call(*client, Method::kPush, push_header(1), std::string(1, 'x'));
  CHECK(late->wait(30000));
  CHECK(late->state() == Answer::State::kError && late->code() == 4 && late->text() == "late");
}

TEST(plane_stop_ends_every_wait) {
  for (int round = 0; round < 10; ++round) {
    Echo echo;
    std::vector<std::shared_ptr<Client>> clients;
    std::vector<std::shared_ptr<Answer>> answers;
    for (int i = 0; i < 9; ++i) {
      clients.push_back(echo.client(i % 3));
      for (int j = 0; j < 5; ++j) {
        answers.push_back(call(*clients.back(), j % 2 == 0 ? Method::kPush : Method::kPull, push_header(127),
                               std::string(20000, 'x')));
      }
    }
    echo.stop();
    for (const auto& one : answers) CHECK(one->wait(30000));
    for (const auto& one : clients) {
      const auto answer = call(*one, Method::kPull, "", "x");
      CHECK(answer->wait(30000));
      CHECK(answer->state() == Answer::State::kLost);
    }
  }
}

// An answer may outlive its client, and its block is used again when nobody holds it.
TEST(plane_answers_are_kept) {
  Echo echo;
  auto client = echo.client(0);
  std::vector<std::shared_ptr<Answer>> answers;
  for (int i = 0; i < 200; ++i) {  // more than there are blocks
    answers.push_back(call(*client, Method::kPull, "", std::string(10000, static_cast<char>(i)), 20000));
  }
  for (const auto& one : answers) CHECK(one->wait(30000));
  client = nullptr;
  for (int i = 0; i < 200; ++i) {
    const Extent& tensor = answers[static_cast<std::size_t>(i)]->tensors().at(0);
    CHECK(tensor.size == 10000 && tensor.data[9999] == static_cast<std::byte>(i));
  }
}

TEST(plane_wrong_token) {
  Echo echo;
  for (const char* token : {"", "another"}) {
    bool is_refused = false;
    try {
      Client::to_unix(echo.name, token, 5000, true);
    } catch (const std::runtime_error& error) {
      is_refused = std::strstr(error.what(), "FLEET_JOB_TOKEN") != nullptr;
    }
    CHECK(is_refused);
  }
}
