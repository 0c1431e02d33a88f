// A server's side of the data plane: connections, and what a few threads do that read, answer and never wait for
// anybody. Whoever makes a server lends it the threads: those that ask Python are best Python's own.
//
// A pull is answered where it is read. A push, and whatever is out of the ordinary, is handed to `Decide`, which is
// Python: it says who may, when and how often; the work itself is done here. A call that must wait for a version is
// parked, which takes no thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "plane/connection.h"
#include "plane/socket.h"
#include "plane/tls.h"

namespace fleet::plane {

// Why a call is handed over.
enum class Reason {
  kPush,   // it fits the job: take it
  kOther,  // answer it by the book, however long that takes
  kLook,   // it is parked, and something has happened: see whether it still may wait
  kLate,   // it is parked, and its time is over
  kMeet,   // a worker comes to a meeting
};
using Decide = std::function<void(Reason, std::shared_ptr<Call>)>;
// Told of a client that was refused: who it is, and what it has instead of the token.
using Refused = std::function<void(const std::string& peer, const std::string& why)>;

struct ServerOptions {
  std::vector<std::string> names;  // of Unix sockets
  std::string address;             // of a TCP socket; empty: none
  std::shared_ptr<const Tls> tls;  // what TCP is wrapped into; null: nothing
  std::string token;               // empty: nobody is asked
  std::size_t max_connections = 4096;
  // Of large messages under way; what is sent ahead may take a quarter as much besides.
  std::shared_ptr<Budget> budget = std::make_shared<Budget>(std::size_t{1} << 30);
  std::uint64_t max_wait_ms = 3'600'000;  // of a pull, whatever it asks for
  std::int64_t hello_ms = 10'000;         // for a client to say who it is
  std::int64_t silence_ms = 60'000;       // for the rest of a message, and for an answer to be read
  std::int64_t ahead_ms = 60'000;         // for the call that what was sent ahead belongs to
  // How many threads never wait in `Decide` for anything but a call of a copy: they are left to read its word, for
  // which others may wait. What would be decided on these is handed over as kOther.
  std::size_t num_kept_free = 0;
};

class Server {
 public:
  struct Counts {
    std::uint64_t pulls, pulled_rows, connections, tls_connections, refused;
    std::uint64_t ahead_bytes;           // that were sent ahead of their message and wait for it now
    std::uint64_t rounds, answering_us;  // how often many waited for one version, and what their answers took in all
    std::uint64_t answer_ns;             // that threads were busy with answers: rows are found and written
  };

  // std::system_error if a socket cannot be had.
  Server(ServerOptions options, Decide decide, Refused refused);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // What each of its threads does, until it is stopped.
  void run(std::size_t thread);
  // Ends every connection, and has every thread leave `run`, after what was to be said to those whose calls ended. Must
  // not be called by `decide`. Again it changes nothing.
  void stop();
  std::uint16_t port() const { return port_; }

  // From now on pulls are for this; null: for nobody. Every worker has its incarnation.
  void serve(std::shared_ptr<const Holdings> holdings, std::uint64_t instance, std::vector<std::uint64_t> incarnations);
  void set_incarnation(std::size_t worker, std::uint64_t incarnation);
  // Pulls of another term are handed over.
  void set_term(std::uint64_t term);
  // What calls wait for has changed. `step` is the part of a push's answer that all have in common. Calls of worker
  // `look`, or of all, are handed over to be looked at.
  void publish(std::uint64_t version, bool is_open, bool is_started, const std::string& step, std::int64_t look);
  static constexpr std::int64_t kNobody = -1, kEverybody = -2;
  // All pushes of the step that leads to this version are here, up to this record, and so is what answers say of that.
  void collected(std::uint64_t version, std::uint64_t record, const std::string& all);
  // The copy of this server has the records up to this one.
  void copied(std::uint64_t record);
  // Answers a call at once, with what it wants.
  void answer(const std::shared_ptr<Call>& call, const std::string& header);
  // Answers a call when the version is reached; it is handed over as late after `timeout_ms`.
  void park(std::shared_ptr<Call> call, std::uint64_t version, std::uint64_t timeout_ms);
  // The same for one that waits for no version: it is answered by whoever knows when.
  void park(std::shared_ptr<Call> call, std::uint64_t timeout_ms);
  // The same, for one that was parked before: it waits for what it waited for.
  void park(std::shared_ptr<Call> call);

  Counts counts() const;

 private:
  struct State {
    std::shared_ptr<const Holdings> holdings;
    std::uint64_t instance = 0;
    std::vector<std::uint64_t> incarnations;
    std::uint64_t term = 0;
    std::uint64_t version = 0;
    bool is_open = false;
    bool is_started = false;
    std::string step;
    std::uint64_t collected = 0, collected_record = 0;
    std::string all;
    std::uint64_t copied = 0;
    std::uint64_t num_looks = 0;  // how often calls were to be looked at
  };

  // The calls that one version answers: the last of them says how long they took.
  struct Round {
    std::chrono::steady_clock::time_point began;
    std::atomic<std::size_t> left;
  };

  // A thread inside `run`.
  class Running {
   public:
    explicit Running(Server& server);
    ~Running();

   private:
    Server& server_;
  };

  void work();
  void on_event(std::uint64_t number);
  void accept_all(int listening, bool is_unix);
  void handle(std::uint64_t number);
  void take(std::shared_ptr<Call> call);
  void take_pull(const std::shared_ptr<Call>& call);
  void answer(const std::shared_ptr<Call>& call);
  // Under the lock of the state: whether a call may wait. Workers may meet where nothing can be trained.
  bool is_open_for(const Call& call) const;
  void end(Round& round);
  // Under the lock of the state: whether what a call waits for is there.
  bool has_come(const Call& call) const;
  // The same: whether that is the version, and not only all pushes of its step.
  bool is_reached(const Call& call) const;
  // Under both locks: takes the calls out that can be answered, and has them answered.
  void answer_ready();
  void decide(Reason reason, std::shared_ptr<Call> call);
  void drop(const std::shared_ptr<Connection>& connection);
  void later(std::function<void()> work);
  void work_off();
  void look_for_late();

  ServerOptions options_;
  Decide decide_;
  Refused was_refused_;
  File epoll_, wake_, tcp_;
  std::vector<File> unix_;
  std::uint16_t port_ = 0;
  std::atomic<bool> is_stopped_{false};
  std::mutex running_mutex_;
  std::condition_variable running_changed_;
  std::atomic<std::size_t> num_running_{0}, num_deciding_{0};

  mutable std::mutex state_mutex_;
  State state_;

  std::mutex parked_mutex_;
  std::vector<std::shared_ptr<Call>> parked_;

  std::mutex work_mutex_;
  std::deque<std::function<void()>> work_;

  mutable std::mutex connections_mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Connection>> connections_;
  std::uint64_t next_number_;
  std::shared_ptr<Budget> ahead_budget_;

  std::atomic<std::uint64_t> pulls_{0}, pulled_rows_{0}, refused_{0}, rounds_{0}, answering_us_{0}, answer_ns_{0};
  std::atomic<std::int64_t> looked_at_ms_{0};
};

}  // namespace fleet::plane
