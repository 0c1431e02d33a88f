#include "plane/client.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "plane/loop.h"

namespace fleet::plane {

namespace {

constexpr std::size_t kInput = 64 << 10;
constexpr std::size_t kFreeBlocks = 8;
constexpr std::uint32_t kMaxBlocks = 128;

}  // namespace

bool Answer::wait(std::int64_t timeout_ms) const {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return state_ != State::kWaiting; });
}

Answer::State Answer::state() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return state_;
}

std::int64_t Answer::came_ns() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return came_ns_;
}

void Answer::finish(State state) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (state_ != State::kWaiting) return;
    state_ = state;
    if (sent_ns_ != 0) came_ns_ = trace::now_ns();
  }
  changed_.notify_all();
}

Client::Client(std::unique_ptr<Stream> stream, bool use_blocks)
    : stream_(std::move(stream)), use_blocks_(use_blocks), owner_(getpid()), input_(kInput) {}

Client::~Client() { close(); }

bool Client::is_open() const {
  if (owner_ != getpid()) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  return !is_closed_;
}

std::shared_ptr<Answer> Client::call(Method method, const std::string& header,
                                     const std::vector<std::vector<Extent>>& tensors, std::size_t room,
                                     const std::vector<Claim>& claims) {
  std::vector<std::size_t> sizes(tensors.size(), 0);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (const Extent& piece : tensors[i]) sizes[i] += piece.size;
  }
  const Layout layout(header.size(), sizes);
  if (layout.size() > kMaxMessage) throw std::length_error("too large");
  auto answer = std::make_shared<Answer>();
  if (owner_ != getpid()) {
    answer->text_ = "the connection belongs to the process that this one was forked from";
    answer->finish(Answer::State::kLost);
    return answer;
  }
  Head head;
  head.kind = Kind::kRequest;
  head.method = static_cast<std::uint16_t>(method);
  head.size = layout.size();
  Block block;
  if (use_blocks_ && (layout.size() > kInline || room > kInline)) {
    const std::size_t at = (layout.size() + 63) / 64 * 64;
    block = take_block(at + room);
    head.at = block.number != 0 ? at : 0;
    head.block = block.number;
  }
  const std::shared_ptr<Memory> memory = block.number != 0 ? block.memory : Memory::of(layout.size());
  SentParts::Found claimed;
  if (!claims.empty()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    claimed = sent_.find(claims);
  }
  std::vector<Part> parts = parts_of(claimed, tensors, layout);
  for (const Part& one : parts) answer->joined_bytes_ += one.size;
  std::vector<Gap> gaps;
  gaps_of(parts, layout.size(), gaps);
  layout.write(memory->data(), header);
  for (std::size_t i = 0; i < tensors.size(); ++i) copy_gaps(tensors[i], layout.begin(i), gaps, memory->data());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_closed_) {
    answer->text_ = "the connection was lost";
    answer->finish(Answer::State::kLost);
    return answer;
  }
  head.call = next_call_++;
  pending_.emplace(head.call, Pending{answer, block});
  for (const Claim& one : claims) sent_.forget(one.number);
  put(head, memory, std::move(parts), gaps);
  return answer;
}

void Client::put(Head head, const std::shared_ptr<Memory>& memory, std::vector<Part> parts,
                 const std::vector<Gap>& gaps) {
  const bool was_empty = out_.empty();
  if (head.block == 0 && (!parts.empty() || sent_.oldest() > told_)) {
    head.kind = Kind::kJoin;
    head.parts = static_cast<std::uint32_t>(parts.size());
    head.at = told_ = sent_.oldest();
  }
  out_.push_back(piece_of(head));
  if (!parts.empty()) {
    auto list = std::make_shared<std::vector<Part>>(std::move(parts));
    out_.push_back({reinterpret_cast<const std::byte*>(list->data()), list->size() * sizeof(Part), list});
  }
  if (head.block == 0) {
    for (const Gap& gap : gaps) out_.push_back({memory->data() + gap.begin, gap.size, memory});
  }
  if (was_empty) flush();
}

std::uint64_t Client::ahead(const std::vector<Extent>& pieces) {
  std::size_t size = 0;
  for (const Extent& one : pieces) size += one.size;
  if (use_blocks_ || owner_ != getpid() || size == 0 || size > kMaxMessage) return 0;
  const std::shared_ptr<Memory> memory = Memory::of(size);
  copy_gaps(pieces, 0, {{0, size}}, memory->data());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_closed_ || loop_ == nullptr || sent_.is_full()) return 0;
  Head head;
  head.kind = Kind::kAhead;
  head.size = size;
  head.call = sent_.add(memory);
  head.at = told_ = sent_.oldest();
  const bool was_empty = out_.empty();
  out_.push_back(piece_of(head));
  out_.push_back({memory->data(), size, memory});
  if (was_empty) loop_->arm(stream_->socket(), true);  // who computes gradients has better things to do
  return head.call;
}

void Client::forget(std::uint64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  sent_.forget(number);
}

Client::Block Client::take_block(std::size_t size) {
  Block made;
  if (size > kMaxBlock) return made;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // The smallest that fits, so that large ones stay for large calls.
    auto best = free_.end();
    for (auto one = free_.begin(); one != free_.end(); ++one) {
      if (one->memory->size() >= size && (best == free_.end() || one->memory->size() < best->memory->size()))
        best = one;
    }
    if (best != free_.end()) {
      made = *best;
      free_.erase(best);
      return made;
    }
    if (free_.size() >= kFreeBlocks) {  // those of other sizes have had their time
      made.number = free_.front().number;
      free_.erase(free_.begin());
    } else if (next_block_ <= kMaxBlocks) {
      made.number = next_block_++;
    } else {
      return made;
    }
  }
  made.memory = Memory::shared(std::min(size + size / 4, kMaxBlock));
  Head head;
  head.kind = Kind::kBlock;
  head.block = made.number;
  head.size = made.memory->size();
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool was_empty = out_.empty();
  // The file is closed when it is sent: the memory stays without it.
  auto file = std::make_shared<File>(made.memory->release_file());
  Piece piece = piece_of(head, file->get());
  piece.owner = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<File>>>(piece.owner, file);
  out_.push_back(std::move(piece));
  if (was_empty) flush();
  return made;
}

void Client::give_back(Block block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!is_closed_) free_.push_back(std::move(block));
}

bool Client::flush() {
  if (!stream_->send_some(out_)) {
    shutdown(stream_->socket(), SHUT_RDWR);  // the loop finds the end
    out_.clear();
    return false;
  }
  if (!out_.empty() && loop_ != nullptr) loop_->arm(stream_->socket(), true);
  return true;
}

bool Client::on_event(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!flush()) return false;
    if (out_.empty() && loop_ != nullptr) loop_->arm(stream_->socket(), false);
  }
  const bool had_more = stream_->has_more();
  if (!had_more && (events & ~static_cast<std::uint32_t>(EPOLLOUT)) == 0) return true;
  if (!read_all()) return false;
  if (had_more || stream_->has_more()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (loop_ != nullptr) loop_->arm(stream_->socket(), !out_.empty() || stream_->has_more());
  }
  return true;
}

bool Client::read_all() {
  bool is_drained = false;
  while (!is_drained) {
    const bool is_direct = is_inside_ && begin_ == end_;
    std::byte* to = nullptr;
    std::size_t room = 0;
    if (is_direct) {
      to = memory_->data() + filled_;
      room = head_.size - filled_;
    } else {
      if (begin_ != 0) std::memmove(input_.data(), input_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
      to = input_.data() + end_;
      room = input_.size() - end_;
    }
    const std::ptrdiff_t received = stream_->receive(to, room, files_);
    if (received == 0 || !files_.empty()) return false;
    if (received < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    is_drained = static_cast<std::size_t>(received) < room;
    (is_direct ? filled_ : end_) += static_cast<std::size_t>(received);
    if (!take_heads()) return false;
  }
  return true;
}

bool Client::take_heads() {
  while (true) {
    if (is_inside_) {
      const std::size_t taken = std::min(end_ - begin_, head_.size - filled_);
      std::memcpy(memory_->data() + filled_, input_.data() + begin_, taken);
      begin_ += taken;
      filled_ += taken;
      if (filled_ < head_.size) return true;
      if (!complete()) return false;
    }
    if (end_ - begin_ < sizeof(Head)) return true;
    std::memcpy(&head_, input_.data() + begin_, sizeof head_);
    begin_ += sizeof head_;
    if (head_.magic != kMagic || (head_.kind != Kind::kReply && head_.kind != Kind::kError)) return false;
    if (head_.size > kMaxMessage) return false;
    if (head_.block != 0) {
      if (!complete()) return false;
      continue;
    }
    is_inside_ = true;
    filled_ = 0;
    memory_ = Memory::of(head_.size);
  }
}

bool Client::complete() {
  is_inside_ = false;
  std::shared_ptr<Memory> memory = std::move(memory_);
  memory_ = nullptr;
  Pending pending;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = pending_.find(head_.call);
    if (found == pending_.end()) return false;
    pending = std::move(found->second);
    pending_.erase(found);
  }
  Answer& answer = *pending.answer;
  if (head_.kind == Kind::kError) {
    answer.code_ = head_.method;
    if (memory != nullptr) answer.text_.assign(reinterpret_cast<const char*>(memory->data()), head_.size);
    if (pending.block.number != 0) give_back(pending.block);
    answer.finish(Answer::State::kError);
    return true;
  }
  const std::byte* data = nullptr;
  if (head_.block != 0) {
    if (head_.block != pending.block.number || head_.at > pending.block.memory->size() ||
        head_.size > pending.block.memory->size() - head_.at) {
      answer.text_ = "it answered nonsense";
      answer.finish(Answer::State::kLost);
      return false;
    }
    data = pending.block.memory->data() + head_.at;
  } else {
    data = memory->data();
  }
  if (!read_message(data, head_.size, answer.message_)) {
    answer.text_ = "it answered nonsense";
    answer.finish(Answer::State::kLost);
    return false;
  }
  if (head_.block != 0) {
    // The block is free again when nobody holds what lies in it.
    answer.memory_ = std::shared_ptr<Memory>(pending.block.memory.get(),
                                             [client = weak_from_this(), block = pending.block](Memory*) mutable {
                                               if (const auto still = client.lock()) still->give_back(std::move(block));
                                             });
  } else {
    answer.memory_ = std::move(memory);
    if (pending.block.number != 0) give_back(pending.block);
  }
  answer.finish(Answer::State::kReply);
  return true;
}

void Client::close(const std::string& why) {
  if (owner_ != getpid()) {  // the connection and its loop are another process's, and go on there
    new std::shared_ptr<Loop>(std::move(loop_));
    return;
  }
  std::unordered_map<std::uint64_t, Pending> lost;
  std::shared_ptr<Loop> loop;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_closed_) return;
    is_closed_ = true;
    lost.swap(pending_);
    free_.clear();
    out_.clear();
    sent_.clear();
    loop = std::move(loop_);
    loop_ = nullptr;
  }
  if (loop != nullptr) loop->remove(stream_->socket());
  shutdown(stream_->socket(), SHUT_RDWR);
  for (auto& [number, one] : lost) {
    one.answer->text_ = why;
    one.answer->finish(Answer::State::kLost);
  }
}

}  // namespace fleet::plane
