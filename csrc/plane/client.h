// A worker's side of the data plane: connections to servers, and one thread that reads what they answer.
//
// A call is written once, into memory that goes to the server as it is: a block that both share, or the heap and a
// socket. Its answer is read where it lies. Whoever waits for it sleeps without a lock that others need.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "plane/ahead.h"
#include "plane/frame.h"
#include "plane/memory.h"
#include "plane/message.h"
#include "plane/stream.h"
#include "plane/tls.h"
#include "trace/ring.h"

namespace fleet::plane {

// What became of a call.
class Answer {
 public:
  enum class State { kWaiting, kReply, kError, kLost };

  // Waits; false if `timeout_ms` are over first.
  bool wait(std::int64_t timeout_ms) const;
  State state() const;
  // Once it is no longer waited for. Of a reply:
  const std::string& header() const { return message_.header; }
  const std::vector<Extent>& tensors() const { return message_.tensors; }
  const std::shared_ptr<Memory>& memory() const { return memory_; }
  // How much of its request had been sent ahead, and was not sent again.
  std::size_t joined_bytes() const { return joined_bytes_; }
  // While a trace is recorded: when the call was made, and when it was answered, or lost; else 0.
  std::int64_t sent_ns() const { return sent_ns_; }
  std::int64_t came_ns() const;
  // Of an error: its code; and its text, or why the connection was lost.
  std::uint16_t code() const { return code_; }
  const std::string& text() const { return text_; }

 private:
  friend class Client;
  void finish(State state);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  State state_ = State::kWaiting;
  Message message_;
  std::shared_ptr<Memory> memory_;  // what the tensors lie in
  std::uint16_t code_ = 0;
  std::string text_;
  std::size_t joined_bytes_ = 0;
  const std::int64_t sent_ns_ = trace::is_on() ? trace::now_ns() : 0;
  std::int64_t came_ns_ = 0;
};

// A head, as the first piece of what follows it.
inline Piece piece_of(const Head& head, int file = -1) {
  auto kept = std::make_shared<Head>(head);
  return {reinterpret_cast<const std::byte*>(kept.get()), sizeof head, kept, file};
}

class Loop;

// One connection. Safe to use from many threads.
class Client : public std::enable_shared_from_this<Client> {
 public:
  // std::system_error if the server cannot be reached within `timeout_ms`; std::runtime_error, with the server's words,
  // if it refuses. Without shared memory everything goes through the socket.
  static std::shared_ptr<Client> to_unix(const std::string& name, const std::string& token, int timeout_ms,
                                         bool use_blocks);
  static std::shared_ptr<Client> to_tcp(const std::string& address, std::uint16_t port, const std::string& token,
                                        int timeout_ms);
  // The same with TLS; the server's certificate must carry the name.
  static std::shared_ptr<Client> to_tls(const std::string& address, std::uint16_t port, const Tls& tls,
                                        const std::string& name, const std::string& token, int timeout_ms);
  ~Client();

  // Begins a call. A tensor may be in pieces; `room` is how large the answer may be, at a guess. What is claimed to
  // have been sent ahead is not sent again if it is so; either way it is forgotten.
  std::shared_ptr<Answer> call(Method method, const std::string& header,
                               const std::vector<std::vector<Extent>>& tensors, std::size_t room,
                               const std::vector<Claim>& claims = {});
  // Has a copy of some bytes sent, by the loop's thread, which a tensor of a later call will hold; their number, or 0
  // if they are not sent: by shared memory they would gain nothing.
  std::uint64_t ahead(const std::vector<Extent>& pieces);
  // What was sent ahead under this number will not be claimed.
  void forget(std::uint64_t number);
  // Ends the connection; calls that wait are lost.
  void close(const std::string& why = "the connection was closed");
  bool is_open() const;

 private:
  friend class Loop;
  Client(std::unique_ptr<Stream> stream, bool use_blocks);
  static std::shared_ptr<Client> begin(std::unique_ptr<Stream> stream, const std::string& token, int timeout_ms,
                                       bool use_blocks);

  struct Block {
    std::uint32_t number = 0;
    std::shared_ptr<Memory> memory;
  };
  struct Pending {
    std::shared_ptr<Answer> answer;
    Block block;  // what the request lies in; number 0: none
  };

  // The loop's: false if the connection is over.
  bool on_event(std::uint32_t events);
  bool read_all();
  bool take_heads();
  bool complete();
  void give_back(Block block);
  // A block of at least this size: one that is free, or a new one, which the server is told of first. Its number is 0
  // if too many are in use.
  Block take_block(std::size_t size);
  bool flush();
  // Under the lock: has what makes up a call sent, but for parts that were sent ahead.
  void put(Head head, const std::shared_ptr<Memory>& memory, std::vector<Part> parts, const std::vector<Gap>& gaps);

  const std::unique_ptr<Stream> stream_;
  const bool use_blocks_;
  const pid_t owner_;  // a process that is forked has no loop
  std::shared_ptr<Loop> loop_;

  mutable std::mutex mutex_;  // guards what follows
  bool is_closed_ = false;
  std::uint64_t next_call_ = 1;
  std::uint32_t next_block_ = 1;
  std::unordered_map<std::uint64_t, Pending> pending_;
  std::vector<Block> free_;
  std::deque<Piece> out_;
  SentParts sent_;
  std::uint64_t told_ = 1;  // parts before this number are not needed, which the server knows

  // The loop's own.
  std::vector<std::byte> input_;
  std::size_t begin_ = 0, end_ = 0;
  Head head_;
  bool is_inside_ = false;
  std::shared_ptr<Memory> memory_;
  std::size_t filled_ = 0;
  std::deque<File> files_;
};

}  // namespace fleet::plane
