#include "plane/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace fleet::plane {

namespace {

constexpr std::size_t kFirstInput = 64 << 10;
constexpr std::size_t kCounted = 1 << 20;  // smaller messages are not counted, but answers behind unread ones
constexpr std::size_t kMaxUnread = 4096;   // pieces of answers
constexpr std::size_t kMaxShared = 256;
constexpr std::size_t kMaxFilesAhead = 8;  // that came before the heads which they belong to
constexpr std::size_t kMaxCalls = 64;      // that are read before any is answered, with what is sent ahead of them
constexpr std::size_t kStranger = sizeof(Head) + kMaxToken;
constexpr std::size_t kPartOverhead = 256;  // of a part that was sent ahead, however small
constexpr const char* kNotAhead = "what was sent ahead of a message is not here any more; it is sent again, in full";

// In a time that depends on nothing but the lengths.
bool is_equal(const std::byte* given, std::size_t size, const std::string& token) {
  unsigned difference = size == token.size() ? 0 : 1;
  for (std::size_t i = 0; i < size; ++i) {
    difference |= static_cast<unsigned>(given[i]) ^ static_cast<unsigned char>(token[i % token.size()]);
  }
  return difference == 0;
}

}  // namespace

Connection::Connection(std::uint64_t number, std::unique_ptr<Stream> stream, bool is_unix, int epoll,
                       const std::string& token, std::shared_ptr<Budget> budget, std::shared_ptr<Budget> ahead_budget,
                       std::int64_t now_ms)
    : number_(number),
      stream_(std::move(stream)),
      is_unix_(is_unix),
      epoll_(epoll),
      token_(token),
      budget_(std::move(budget)),
      ahead_budget_(std::move(ahead_budget)),
      since_ms_(now_ms),
      input_(kStranger) {}  // whoever is not welcome gets little memory

bool Connection::read(std::vector<std::shared_ptr<Call>>& calls) {
  const std::lock_guard<std::mutex> lock(reading_);
  bool is_drained = false;
  reads_since_ms_ = kNever;
  num_ahead_ = 0;
  while (!is_drained && !is_choked_ && calls.size() + num_ahead_ < kMaxCalls) {
    if (is_closed_ || !read_some(is_drained) || !take_heads(calls)) return false;
  }
  if (is_inside_) reads_since_ms_ = now_ms();
  return true;
}

bool Connection::read_some(bool& is_drained) {
  std::byte* to = nullptr;
  std::size_t room = 0;
  const bool is_direct = is_inside_ && !incoming_.is_dropped() && begin_ == end_;
  if (is_direct) {
    to = incoming_.to();
    room = incoming_.room();
  } else {
    if (begin_ != 0) {
      std::memmove(input_.data(), input_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    to = input_.data() + end_;
    room = input_.size() - end_;
  }
  const std::ptrdiff_t received = stream_->receive(to, room, files_);
  if (received == 0) return false;
  if (received < 0) {
    is_drained = errno == EAGAIN || errno == EWOULDBLOCK;
    return is_drained;
  }
  if (files_.size() > (is_welcome_ ? kMaxFilesAhead : 0)) return false;
  is_drained = static_cast<std::size_t>(received) < room;
  if (is_direct) {
    incoming_.advance(static_cast<std::size_t>(received));
  } else {
    end_ += static_cast<std::size_t>(received);
  }
  return true;
}

bool Connection::take_heads(std::vector<std::shared_ptr<Call>>& calls) {
  while (true) {
    while (is_inside_) {
      while (!incoming_.is_complete() && begin_ != end_) {
        const std::size_t taken = std::min(end_ - begin_, incoming_.room());
        if (!incoming_.is_dropped()) std::memcpy(incoming_.to(), input_.data() + begin_, taken);
        begin_ += taken;
        incoming_.advance(taken);
      }
      if (!incoming_.is_complete()) return true;
      if (!complete(calls)) return false;
    }
    if (end_ - begin_ < sizeof(Head)) return true;
    Head head;
    std::memcpy(&head, input_.data() + begin_, sizeof head);
    begin_ += sizeof head;
    if (head.magic != kMagic || !begin(head, calls)) return false;
  }
}

bool Connection::begin(const Head& head, std::vector<std::shared_ptr<Call>>& calls) {
  if (!is_welcome_) {
    if (head.kind != Kind::kHello || head.size > kMaxToken) return false;
  } else if (head.kind == Kind::kBlock) {
    return take_block(head);
  } else if (head.kind == Kind::kAhead) {
    return begin_ahead(head);
  } else if ((head.kind != Kind::kRequest && head.kind != Kind::kJoin) || head.size > kMaxMessage || head.method < 1 ||
             head.method > kNumMethods) {
    return false;
  } else if (head.kind == Kind::kJoin && (head.block != 0 || head.parts > kMaxParts)) {
    return false;
  } else if (head.block != 0) {
    const auto found = blocks_.find(head.block);
    if (found == blocks_.end() || head.size > found->second->size()) return false;
    calls.push_back(std::make_shared<Call>(shared_from_this(), head, found->second));
    return true;
  }
  head_ = head;
  is_inside_ = true;
  is_list_ = head.kind == Kind::kJoin;
  why_dropped_ = kNoRoom;
  const std::size_t size = is_list_ ? head.parts * sizeof(Part) : head.size;
  std::vector<Gap> gaps;
  if (size != 0) gaps.push_back({0, size});
  incoming_.begin(nullptr, {});
  incoming_.begin(room_for(size, 0), std::move(gaps));
  return true;
}

bool Connection::begin_ahead(const Head& head) {
  kept_.drop_before(head.at);
  if (head.size == 0 || head.size > kMaxMessage || !kept_.may_come(head.call)) return false;
  head_ = head;
  is_inside_ = true;
  is_list_ = false;
  incoming_.begin(Memory::counted(ahead_budget_, head.size, head.size + kPartOverhead, 0), {{0, head.size}});
  return true;
}

std::shared_ptr<Memory> Connection::room_for(std::size_t size, std::size_t own) {
  return size <= kCounted ? Memory::of(size) : Memory::counted(budget_, size, size, own);
}

std::shared_ptr<Memory> Connection::room_for_answer(std::size_t size, std::size_t own) {
  return sends_since_ms_ == kNever ? room_for(size, own) : Memory::counted(budget_, size, size, own);
}

bool Connection::complete(std::vector<std::shared_ptr<Call>>& calls) {
  const auto memory = incoming_.release();
  if (is_list_) return complete_list(*memory);
  is_inside_ = false;
  if (head_.kind == Kind::kHello) return greet(memory->data(), head_.size);
  if (head_.kind == Kind::kAhead) {
    kept_.keep(head_.call, memory);
    ++num_ahead_;
    ahead_since_ms_ = now_ms();
  } else if (memory == nullptr) {
    refuse(head_, kResourceExhausted, why_dropped_);
  } else {
    calls.push_back(std::make_shared<Call>(shared_from_this(), head_, memory));
  }
  return true;
}

bool Connection::complete_list(const Memory& list) {
  is_list_ = false;
  std::vector<Part> parts(head_.parts);
  if (!parts.empty()) std::memcpy(parts.data(), list.data(), parts.size() * sizeof(Part));
  std::vector<Gap> gaps;
  if (!gaps_of(parts, head_.size, gaps)) return false;
  auto memory = room_for(head_.size, 0);
  if (memory != nullptr && !kept_.join(parts, memory->data())) {
    memory = nullptr;
    why_dropped_ = kNotAhead;
  }
  for (const Part& one : parts) kept_.drop(one.number);
  kept_.drop_before(head_.at);
  if (kept_.is_empty()) ahead_since_ms_ = kNever;
  incoming_.begin(std::move(memory), std::move(gaps));
  return true;
}

void Connection::drop_ahead() {
  const std::unique_lock<std::mutex> lock(reading_, std::try_to_lock);
  if (!lock.owns_lock()) return;  // something comes: whether it is late is seen later
  kept_.clear();
  ahead_since_ms_ = kNever;
}

bool Connection::greet(const std::byte* token, std::size_t size) {
  if (!token_.empty() && !is_equal(token, size, token_)) {
    const std::string what = refusal_ = size == 0 ? "no token" : "another token";
    refuse({}, kUnauthenticated,
           "this process has " + what + "; set FLEET_JOB_TOKEN to the same value on every process");
    return false;
  }
  is_welcome_ = true;
  input_.resize(kFirstInput);
  Head head;
  head.kind = Kind::kWelcome;
  send(head, nullptr, 0, nullptr);
  return true;
}

bool Connection::take_block(const Head& head) {
  if (!is_unix_ || files_.empty() || head.block == 0 || head.size > kMaxBlock) return false;
  if (blocks_.size() >= kMaxShared && blocks_.find(head.block) == blocks_.end()) return false;
  auto block = Memory::mapped(files_.front().release(), head.size);
  files_.pop_front();
  if (block == nullptr) return false;
  blocks_[head.block] = std::move(block);
  return true;
}

void Connection::refuse(const Head& head, std::uint16_t code, const std::string& text) {
  auto kept = std::make_shared<std::string>(text);
  Head answer;
  answer.kind = Kind::kError;
  answer.method = code;
  answer.call = head.call;
  answer.size = kept->size();
  send(answer, reinterpret_cast<const std::byte*>(kept->data()), kept->size(), kept);
}

void Connection::send(const Head& head, const std::byte* data, std::size_t size, std::shared_ptr<void> owner) {
  auto kept = std::make_shared<Head>(head);
  const std::lock_guard<std::mutex> lock(sending_);
  if (is_closed_) return;
  const bool was_empty = out_.empty();
  out_.push_back({reinterpret_cast<const std::byte*>(kept.get()), sizeof head, kept});
  if (size != 0) out_.push_back({data, size, std::move(owner)});
  is_choked_ = out_.size() > kMaxUnread;
  if (!was_empty) return;
  if (!stream_->send_some(out_)) {
    shutdown(stream_->socket(), SHUT_RDWR);  // whoever reads it finds the end
    out_.clear();
  } else if (!out_.empty()) {
    sends_since_ms_ = now_ms();
    arm();
  }
}

bool Connection::flush_and_arm() {
  const std::lock_guard<std::mutex> lock(sending_);
  const std::size_t before = out_.empty() ? 0 : out_.front().size;
  const std::size_t pieces = out_.size();
  if (is_closed_ || !stream_->send_some(out_)) return false;
  if (out_.empty()) {
    sends_since_ms_ = kNever;
  } else if (out_.size() != pieces || out_.front().size != before) {
    sends_since_ms_ = now_ms();
  }
  is_choked_ = out_.size() > kMaxUnread;
  arm();
  return true;
}

void Connection::arm() {
  epoll_event event{};
  event.events =
      EPOLLONESHOT | (is_choked_ ? 0u : EPOLLIN | EPOLLRDHUP) | (out_.empty() && !stream_->has_more() ? 0u : EPOLLOUT);
  event.data.u64 = number_;
  if (epoll_ctl(epoll_, EPOLL_CTL_MOD, stream_->socket(), &event) != 0 && errno == ENOENT) {
    epoll_ctl(epoll_, EPOLL_CTL_ADD, stream_->socket(), &event);
  }
}

void Connection::close() {
  const std::lock_guard<std::mutex> lock(sending_);
  if (is_closed_.exchange(true)) return;
  epoll_ctl(epoll_, EPOLL_CTL_DEL, stream_->socket(), nullptr);
  shutdown(stream_->socket(), SHUT_RDWR);
  out_.clear();
}

}  // namespace fleet::plane
