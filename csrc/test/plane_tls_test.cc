// The data plane with TLS around it: the same answers, for those whose certificates fit alone.
#include <sys/socket.h>

#include "plane_echo.h"

using namespace fleet::test;

namespace {

const std::vector<std::string> kLibraries{"libssl.so.3", "libssl.so.1.1"};

std::shared_ptr<Tls> make(std::uint64_t records_of_a_key = kRecordsOfAKey) {
  return Tls::make(kLibraries, kCertificate, kKey, kAuthority, records_of_a_key);
}

bool has_library() {
  try {
    make();
    return true;
  } catch (const std::runtime_error& error) {
    std::printf("no TLS here: %s\n", error.what());
    return false;
  }
}

// What a connection attempt says.
std::string refusal(Echo& echo, const Tls& tls, const std::string& name, const std::string& token = kToken) {
  try {
    Client::to_tls("127.0.0.1", (*echo).port(), tls, name, token, 5000);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(plane_tls_many_clients) {
  if (!has_library()) return;
  Echo echo(make());
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      auto client = echo.client(number == 0 ? kBlocks : kTls);
      for (std::size_t i = 0; i < 60; ++i) {
        if (i % 20 == 19) client = echo.client(kTls);
        check_echo(*client, (i * 7919) % 100000, static_cast<char>('a' + number));
      }
    });
  }
  for (std::thread& one : threads) one.join();
  CHECK(echo.num_refused == 0);
}

// Reading and writing at once, with both buffers full: one thread sends large calls while answers come, and keys
// change.
TEST(plane_tls_both_ways_at_once) {
  if (!has_library()) return;
  for (const std::uint64_t records : {std::uint64_t{3}, kRecordsOfAKey}) {
    const auto tls = make(records);
    Echo echo(tls);
    const auto client = echo.client(kTls);
    std::vector<std::thread> threads;
    for (int number = 0; number < 3; ++number) {
      threads.emplace_back([&, number] {
        std::vector<std::shared_ptr<Answer>> answers;
        const std::string bytes(3'000'000, static_cast<char>('a' + number));
        for (int i = 0; i < 6; ++i) answers.push_back(call(*client, Method::kPull, "", bytes, bytes.size()));
        for (std::size_t i = 0; i < 200; ++i) check_echo(*client, i, static_cast<char>('A' + number));
        for (const auto& one : answers) {
          CHECK(one->wait(60000));
          CHECK(one->state() == Answer::State::kReply);
          CHECK(std::memcmp(one->tensors().at(0).data, bytes.data(), bytes.size()) == 0);
        }
      });
    }
    for (std::thread& one : threads) one.join();
  }
}

// More calls than a server reads at once come in one piece, which lies in the library when epoll is asked again.
TEST(plane_tls_many_small_calls) {
  if (!has_library()) return;
  Echo echo(make());
  const auto client = echo.client(kTls);
  std::vector<std::shared_ptr<Answer>> answers;
  for (int i = 0; i < 5000; ++i) answers.push_back(call(*client, Method::kPull, "", std::string(1, 'x')));
  for (const auto& one : answers) {
    CHECK(one->wait(30000));
    CHECK(one->state() == Answer::State::kReply);
  }
}

TEST(plane_tls_stop_ends_every_wait) {
  if (!has_library()) return;
  for (int round = 0; round < 5; ++round) {
    Echo echo(make());
    std::vector<std::shared_ptr<Client>> clients;
    std::vector<std::shared_ptr<Answer>> answers;
    for (int i = 0; i < 3; ++i) {
      clients.push_back(echo.client(kTls));
      for (int j = 0; j < 5; ++j) {
        const Method method = j % 2 == 0 ? Method::kPush : Method::kPull;
        answers.push_back(call(*clients.back(), method, push_header(127), std::string(20000, 'x')));
      }
    }
    if (round % 2 == 0) clients.front()->close();
    echo.stop();
    for (const auto& one : answers) CHECK(one->wait(30000));
  }
}

TEST(plane_tls_who_is_refused) {
  if (!has_library()) return;
  const auto tls = make();
  Echo echo(tls);
  const auto is_in = [](const char* part, const std::string& text) { return text.find(part) != std::string::npos; };
  CHECK(refusal(echo, *tls, "fleet-test").empty());
  CHECK(is_in("FLEET_JOB_TOKEN", refusal(echo, *tls, "fleet-test", "another")));
  CHECK(is_in("certificate verify failed", refusal(echo, *tls, "another-name")));
  CHECK(is_in("certificate verify failed", refusal(echo, *tls, "127.0.0.1")));
  const auto other = Tls::make(kLibraries, kOtherCertificate, kOtherKey, kOtherAuthority);
  CHECK(is_in("certificate verify failed", refusal(echo, *other, "fleet-test")));
  const auto unknown = Tls::make(kLibraries, kOtherCertificate, kOtherKey, kAuthority);
  CHECK(is_in("refuses the certificate of this process", refusal(echo, *unknown, "fleet-test")));
  bool is_lost = false;
  try {
    echo.client(kTcp);
  } catch (const std::exception&) {
    is_lost = true;
  }
  CHECK(is_lost);
  check_echo(*echo.client(kTls), 1000, 'x');
}

TEST(plane_tls_what_cannot_be_used) {
  const auto is_refused = [](const std::vector<std::string>& libraries, const char* certificate, const char* key,
                             const char* authority, const char* part) {
    try {
      Tls::make(libraries, certificate, key, authority);
    } catch (const std::runtime_error& error) {
      return std::strstr(error.what(), part) != nullptr;
    }
    return false;
  };
  CHECK(is_refused({}, kCertificate, kKey, kAuthority, "no library"));
  CHECK(is_refused({"libfleet-none.so"}, kCertificate, kKey, kAuthority, "libfleet-none.so"));
  CHECK(is_refused({"libm.so.6"}, kCertificate, kKey, kAuthority, "it has no OpenSSL_version"));
  if (!has_library()) return;
  CHECK(is_refused(kLibraries, "nonsense", kKey, kAuthority, "the certificate"));
  CHECK(is_refused(kLibraries, kCertificate, kOtherKey, kAuthority, "the key"));
  CHECK(is_refused(kLibraries, kCertificate, "", kAuthority, "the key"));
  CHECK(is_refused(kLibraries, kCertificate, kKey, "nonsense", "the authority"));
}
