// One request that a server has been sent, until it is answered.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plane/frame.h"
#include "plane/holdings.h"
#include "plane/memory.h"
#include "plane/message.h"
#include "trace/ring.h"

namespace fleet::plane {

// Codes of errors, which are gRPC's.
constexpr std::uint16_t kResourceExhausted = 8, kInternal = 13, kUnauthenticated = 16;

constexpr const char* kNoRoom = "no room for a message beside those under way (FLEET_MEMORY_BUDGET); it is sent again";

// Who a call came from: takes one answer for each. Safe to use from many threads.
class Origin {
 public:
  virtual ~Origin() = default;
  // Sends a head and, behind it, bytes that `owner` keeps.
  virtual void send(const Head& head, const std::byte* data, std::size_t size, std::shared_ptr<void> owner) = 0;
  virtual bool is_gone() const = 0;
  // Memory for an answer; null if there is no room beside others that are under way. `own`: what the request holds.
  virtual std::shared_ptr<Memory> room_for_answer(std::size_t size, std::size_t own) = 0;
};

class Call {
 public:
  Call(std::shared_ptr<Origin> origin, const Head& head, std::shared_ptr<Memory> memory);

  Method method() const { return method_; }
  const Message& message() const { return message_; }
  const std::shared_ptr<Memory>& memory() const { return memory_; }
  std::size_t size() const { return size_; }
  const Caller& caller() const {
    return method_ == Method::kPull ? pull_.caller : method_ == Method::kPush ? push_.caller : meet_.caller;
  }
  // Whether it is a message whose header was read.
  bool is_message() const { return is_message_; }
  const PullHeader& pull() const { return pull_; }
  const PushHeader& push() const { return push_; }
  // The rows that it wants, beside those that it pushes.
  const std::vector<Wanted>& wanted() const { return method_ == Method::kPull ? wanted_ : gradients_.pulls; }
  Gradients& gradients() { return gradients_; }
  bool is_gone() const { return origin_->is_gone(); }
  // Nothing is owed to anybody any more.
  bool is_over() const { return is_answered_ || is_gone(); }
  // Reads the request for what a server holds; false if it does not fit, or is for Python to answer.
  bool fit(std::shared_ptr<const Holdings> holdings);

  // Moves what the request holds into memory that nobody else can write to, and decodes it: a push that is kept beyond
  // its answer must, and there is time for it.
  // std::runtime_error if somebody has changed it meanwhile, so that it does not fit any more.
  void keep();

  // Others must find room for what it waits for.
  void give_room_back() { memory_->give_room_back(); }
  std::size_t hand_room_over() { return memory_->hand_room_over(); }

  // Answers with what the request wants: rows, then dense parameters.
  void answer(const std::string& header);
  // Answers with other tensors.
  void reply(const std::string& header, const std::vector<Extent>& tensors);
  void fail(std::uint16_t code, const std::string& text);

  // Of a call that is parked: the version it waits for, and how long.
  void wait_for(std::uint64_t version, std::int64_t deadline_ms) {
    awaited_version_ = version;
    deadline_ms_ = deadline_ms;
  }
  std::uint64_t awaited_version() const { return awaited_version_; }
  std::int64_t deadline_ms() const { return deadline_ms_; }
  // Of a call that is traced: it begins to wait for the step, or has waited.
  bool is_traced() const { return is_traced_; }
  void begin_wait() {
    if (is_traced_ && waits_from_ns_ == 0) waits_from_ns_ = trace::now_ns();
  }
  void end_wait() {
    if (waits_from_ns_ != 0) waits_to_ns_ = trace::now_ns();
  }
  bool wants_dense() const { return pull_.dense || push_.want_dense; }

  // How often calls had been looked at when this one was: see Server::publish.
  std::uint64_t num_looks = 0;
  // Of a call that waits: the begin of its answer's header, and a number that whoever parks it wants to find again.
  std::string prefix;
  std::uint64_t note = 0;
  // The record that the copy of this server must have before it is answered; 0: none.
  std::uint64_t record = 0;
  // Whether it is answered as soon as all pushes of the step are here, which is not made yet.
  bool asks_for_all = false;

 private:
  // Larger ones are decoded by Python's leave, which counts them among the messages that are under way.
  static constexpr std::size_t kMostDecoded = std::size_t{64} << 20;

  bool read(const Holdings& holdings);
  void send(const std::string& header, const std::vector<std::size_t>& sizes,
            const std::function<void(std::size_t, std::byte*)>& fill);
  // Keeps the span of a call that is traced: its answer is about to go.
  void trace_answer() const;

  std::shared_ptr<Origin> origin_;
  std::uint64_t number_;
  Method method_;
  std::shared_ptr<Memory> memory_;
  std::size_t size_;
  std::shared_ptr<Memory> room_;  // for the answer; null: none
  std::size_t room_at_ = 0;
  std::uint32_t block_ = 0;
  bool is_message_ = false;
  Message message_;
  PullHeader pull_;
  PushHeader push_;
  MeetHeader meet_;
  std::vector<Wanted> wanted_;  // of a pull
  Gradients gradients_;         // of a push
  std::shared_ptr<const Holdings> holdings_;
  std::uint64_t awaited_version_ = 0;
  std::int64_t deadline_ms_ = 0;
  std::atomic<bool> is_answered_{false};
  bool is_traced_ = false;
  std::int64_t arrived_ns_ = 0, waits_from_ns_ = 0, waits_to_ns_ = 0;
};

}  // namespace fleet::plane
