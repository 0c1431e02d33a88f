// A server of the data plane that echoes, and clients of every kind to it, in one process.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "certificates.h"
#include "check.h"
#include "plane/client.h"
#include "plane/server.h"

namespace fleet::test {

using namespace fleet::plane;

constexpr const char* kToken = "a token";
// Kinds of clients.
constexpr int kBlocks = 0, kUnixOnly = 1, kTcp = 2, kTls = 3;

inline std::string unique_name() {
  static std::atomic<int> number{0};
  return "fleet-test-" + std::to_string(getpid()) + "-" + std::to_string(number++);
}

// How many come to a meeting.
constexpr std::size_t kMet = 20;

// A server without holdings: pulls are echoed, pushes wait for the version that is their number of bytes, and who comes
// to a meeting for the others.
class Echo {
 public:
  // With `tls`, TCP speaks it.
  explicit Echo(std::shared_ptr<const Tls> tls = nullptr, std::size_t num_threads = 3)
      : name(unique_name()), tls_(std::move(tls)), server_(options(), decide(), refuse()) {
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
    if (kind == kTls) return Client::to_tls("127.0.0.1", server_.port(), *tls_, "fleet-test", kToken, 5000);
    if (kind == kTcp) return Client::to_tcp("127.0.0.1", server_.port(), kToken, 5000);
    return Client::to_unix(name, kToken, 5000, kind == kBlocks);
  }

  const std::string name;
  std::atomic<int> num_refused{0};
  // Of pushes that come from now on: the record that the copy must have, and whether all pushes of the step are enough.
  std::atomic<std::uint64_t> record{0};
  std::atomic<bool> asks_for_all{false};

 private:
  ServerOptions options() {
    ServerOptions made;
    made.names = {name};
    made.address = "127.0.0.1";
    made.tls = tls_;
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
        call->record = record;
        call->asks_for_all = asks_for_all;
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

  const std::shared_ptr<const Tls> tls_;
  Server server_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Call>> met_;
};

inline std::string push_header(std::uint8_t timeout_ms) {
  return {11 << 3, static_cast<char>(timeout_ms)};  // in one byte, so below 128
}

inline std::shared_ptr<Answer> call(Client& client, Method method, const std::string& header, const std::string& bytes,
                                    std::size_t room = 0) {
  return client.call(method, header, {{{reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}}}, room);
}

inline void check_echo(Client& client, std::size_t size, char letter) {
  const std::string bytes(size, letter);
  const auto answer = call(client, Method::kPull, "", bytes, size);
  CHECK(answer->wait(30000));
  CHECK(answer->state() == Answer::State::kReply);
  CHECK(answer->tensors().size() == 1 && answer->tensors()[0].size == size);
  CHECK(std::memcmp(answer->tensors()[0].data, bytes.data(), size) == 0);
}

}  // namespace fleet::test
