// A server and clients of the data plane in one process: every call gets one answer, whoever waits, closes or stops.
#include "plane_echo.h"

using namespace fleet::test;

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

// A push is answered when its version is there and the copy has its record, whichever comes last.
TEST(plane_copied) {
  Echo echo;
  const auto client = echo.client(0);
  echo.record = 5;
  for (std::uint64_t version = 1; version <= 20; ++version) {
    const bool is_copied_first = version % 2 == 0;
    (*echo).copied(4);
    const auto answer = call(*client, Method::kPush, push_header(127), std::string(version, 'x'));
    is_copied_first ? (*echo).copied(5) : (*echo).publish(version, true, true, "", Server::kNobody);
    CHECK(!answer->wait(5));
    is_copied_first ? (*echo).publish(version, true, true, "", Server::kNobody) : (*echo).copied(5);
    CHECK(answer->wait(30000));
    CHECK(answer->state() == Answer::State::kReply);
  }
}

// Or when all pushes of the step are there, and with the copy: then it is told what is said of that.
TEST(plane_collected) {
  Echo echo;
  const auto client = echo.client(0);
  echo.record = 5;
  echo.asks_for_all = true;
  (*echo).copied(6);
  const auto answer = call(*client, Method::kPush, push_header(127), "x");
  (*echo).collected(1, 7, "all");
  CHECK(!answer->wait(5));
  (*echo).copied(7);
  CHECK(answer->wait(30000));
  CHECK(answer->header() == "all");
  (*echo).publish(1, true, true, "step", Server::kNobody);
  const auto late = call(*client, Method::kPush, push_header(127), "x");
  CHECK(late->wait(30000));
  CHECK(late->header() == "step");
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
