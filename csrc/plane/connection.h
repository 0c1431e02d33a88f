// A client, seen from a server: what it has sent so far, and what is still to be sent to it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "plane/ahead.h"
#include "plane/call.h"
#include "plane/incoming.h"
#include "plane/stream.h"

namespace fleet::plane {

class Connection : public Origin, public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::uint64_t number, std::unique_ptr<Stream> stream, bool is_unix, int epoll, const std::string& token,
             std::shared_ptr<Budget> budget, std::shared_ptr<Budget> ahead_budget, std::int64_t now_ms);

  std::uint64_t number() const { return number_; }
  std::int64_t since_ms() const { return since_ms_; }
  bool is_welcome() const { return is_welcome_; }
  bool is_unix() const { return is_unix_; }
  // Who was refused, by what it has instead of what it should; null: nobody.
  const char* refusal() const { return refusal_ != nullptr ? refusal_.load() : stream_->refusal(); }
  std::string peer() const { return peer_of(stream_->socket()); }
  // Since when the rest of a message, or room for an answer, is waited for.
  std::int64_t waits_since_ms() const { return std::min<std::int64_t>(reads_since_ms_, sends_since_ms_); }

  // Since when parts that were sent ahead lie here, and nothing came for them; and their end.
  std::int64_t ahead_since_ms() const { return ahead_since_ms_; }
  void drop_ahead();

  // Reads what has come; the requests that are complete. False if the connection is over.
  bool read(std::vector<std::shared_ptr<Call>>& calls);
  // Sends what is waiting, and has epoll tell of whatever comes next. False if the connection is over.
  bool flush_and_arm();
  void close();

  void send(const Head& head, const std::byte* data, std::size_t size, std::shared_ptr<void> owner) override;
  bool is_gone() const override { return is_closed_; }
  std::shared_ptr<Memory> room_for_answer(std::size_t size, std::size_t own) override;

 private:
  std::shared_ptr<Memory> room_for(std::size_t size, std::size_t own);
  bool read_some(bool& is_drained);
  bool take_heads(std::vector<std::shared_ptr<Call>>& calls);
  bool begin(const Head& head, std::vector<std::shared_ptr<Call>>& calls);
  bool begin_ahead(const Head& head);
  bool complete(std::vector<std::shared_ptr<Call>>& calls);
  bool complete_list(const Memory& list);
  bool greet(const std::byte* token, std::size_t size);
  bool take_block(const Head& head);
  void arm();
  void refuse(const Head& head, std::uint16_t code, const std::string& text);

  const std::uint64_t number_;
  const std::unique_ptr<Stream> stream_;
  const bool is_unix_;
  const int epoll_;
  const std::string& token_;
  const std::shared_ptr<Budget> budget_;
  const std::shared_ptr<Budget> ahead_budget_;  // of its own, so that what may never be used keeps nobody waiting
  const std::int64_t since_ms_;
  std::atomic<bool> is_welcome_{false}, is_closed_{false};
  std::atomic<bool> is_choked_{false};  // it leaves so many answers unread that nothing more is read of it
  std::atomic<const char*> refusal_{nullptr};
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> reads_since_ms_{kNever}, sends_since_ms_{kNever}, ahead_since_ms_{kNever};

  std::mutex reading_;  // guards what follows
  std::vector<std::byte> input_;
  std::size_t begin_ = 0, end_ = 0;  // of what is not taken yet
  Head head_;                        // of the message that is being read
  bool is_inside_ = false;
  bool is_list_ = false;  // of the parts of a message that was sent ahead: what comes first
  Incoming incoming_;
  const char* why_dropped_ = nullptr;
  KeptParts kept_;
  std::size_t num_ahead_ = 0;  // parts of this reading
  std::deque<File> files_;
  std::unordered_map<std::uint32_t, std::shared_ptr<Memory>> blocks_;

  std::mutex sending_;  // guards what follows, and the registration with epoll
  std::deque<Piece> out_;
};

}  // namespace fleet::plane
