#include "plane/call.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace fleet::plane {

Call::Call(std::shared_ptr<Origin> origin, const Head& head, std::shared_ptr<Memory> memory)
    : origin_(std::move(origin)),
      number_(head.call),
      method_(static_cast<Method>(head.method)),
      memory_(std::move(memory)),
      size_(head.size) {
  if (head.block != 0 && head.at >= head.size && head.at <= memory_->size() && head.at % 8 == 0) {
    room_ = memory_;
    room_at_ = head.at;
    block_ = head.block;
  }
  if (trace::is_on()) arrived_ns_ = trace::now_ns();
  is_message_ = read_message(memory_->data(), size_, message_);
  if (!is_message_) return;
  switch (method_) {
    case Method::kPull: is_message_ = read_header(message_.header, pull_); break;
    case Method::kPush: is_message_ = read_header(message_.header, push_); break;
    case Method::kMeet: is_message_ = read_header(message_.header, meet_); break;
    case Method::kFollow: break;  // Python reads it
  }
  is_traced_ = arrived_ns_ != 0 && is_message_ && caller().is_traced;
}

bool Call::fit(std::shared_ptr<const Holdings> holdings) {
  if (!is_message_ || holdings == nullptr || (method_ != Method::kPull && method_ != Method::kPush)) return false;
  wanted_.clear();
  gradients_ = {};
  const bool fits = read(*holdings);
  holdings_ = fits ? std::move(holdings) : nullptr;
  return fits;
}

bool Call::read(const Holdings& holdings) {
  const bool is_held = holdings.dense() != nullptr || !(wants_dense() || !push_.dense_lrs.empty());
  if (!is_held || !pull_.is_plain || !push_.is_plain || pull_.kept) return false;
  Refusal why;
  if (method_ == Method::kPull) return holdings.reader().read(pull_, message_.tensors, wanted_, why);
  gradients_.is_traced = is_traced_;
  return holdings.reader().read(push_, message_.tensors, gradients_, why) && gradients_.decoded_bytes() <= kMostDecoded;
}

void Call::keep() {
  if (block_ != 0 && memory_ == room_) {
    auto own = Memory::of(size_);
    std::memcpy(own->data(), memory_->data(), size_);
    memory_ = std::move(own);
    const std::string header = std::move(message_.header);  // which was read, and stays
    message_ = {};
    is_message_ = read_message(memory_->data(), size_, message_);
    message_.header = header;
    if (!is_message_ || (holdings_ != nullptr && !fit(holdings_))) {
      holdings_ = nullptr;
      throw std::runtime_error("it has changed while it was read");
    }
  }
  gradients_.decode();
}

void Call::answer(const std::string& header) {
  const trace::Here here(is_traced_);
  const trace::Scope span(trace::What::kAnswer);
  std::vector<Wanted> rows;
  if (push_.want_rows) {
    for (const Gradients::Part& part : gradients_.parts) {
      rows.push_back({part.table, part.keys, part.n, Table::Missing::kFirst, part.row_format});
    }
  }
  rows.insert(rows.end(), wanted().begin(), wanted().end());
  std::vector<Dense::Values> dense;
  if (wants_dense()) dense = holdings_->dense()->read();
  std::vector<std::size_t> sizes;
  for (const Wanted& one : rows) sizes.push_back(holdings_->row_bytes(one));
  const auto asked = static_cast<WireFormat>(method_ == Method::kPull ? pull_.dense_format : push_.dense_format);
  for (std::size_t group = 0; group < dense.size(); ++group) {
    sizes.push_back(vector_bytes(holdings_->format_of(group, asked), dense[group]->size()));
  }
  send(header, sizes, [&](std::size_t i, std::byte* to) {
    if (i < rows.size()) {
      const trace::Scope read(trace::What::kTablePull, rows[i].table, rows[i].n);
      holdings_->pull(rows[i], to);
    } else {
      const std::size_t group = i - rows.size();
      encode_vector(holdings_->format_of(group, asked), dense[group]->data(), nullptr, dense[group]->size(),
                    reinterpret_cast<std::uint8_t*>(to));
    }
  });
}

void Call::reply(const std::string& header, const std::vector<Extent>& tensors) {
  std::vector<std::size_t> sizes;
  for (const Extent& tensor : tensors) sizes.push_back(tensor.size);
  send(header, sizes, [&](std::size_t i, std::byte* to) {
    if (sizes[i] != 0) std::memcpy(to, tensors[i].data, sizes[i]);
  });
}

void Call::send(const std::string& header, const std::vector<std::size_t>& sizes,
                const std::function<void(std::size_t, std::byte*)>& fill) {
  if (is_answered_.exchange(true) || origin_->is_gone()) return;
  const Layout layout(header.size(), sizes);
  if (layout.size() > kMaxMessage) {
    is_answered_ = false;
    throw std::length_error("an answer of " + std::to_string(layout.size() >> 20) + " MiB is over the limit of " +
                            std::to_string(kMaxMessage >> 20) + "; use smaller batches");
  }
  Head head;
  head.kind = Kind::kReply;
  head.method = static_cast<std::uint16_t>(method_);
  head.call = number_;
  head.size = layout.size();
  const bool is_shared = room_ != nullptr && layout.size() <= room_->size() - room_at_;
  std::shared_ptr<Memory> memory = room_;
  try {
    if (!is_shared) memory = origin_->room_for_answer(layout.size(), memory_->held());
    if (memory == nullptr) {
      is_answered_ = false;
      fail(kResourceExhausted, kNoRoom);
      return;
    }
    std::byte* to = memory->data() + (is_shared ? room_at_ : 0);
    layout.write(to, header);
    for (std::size_t i = 0; i < sizes.size(); ++i) fill(i, to + layout.begin(i));
  } catch (...) {
    is_answered_ = false;  // who catches this still owes an answer
    throw;
  }
  trace_answer();
  give_room_back();  // a push may be kept beyond its answer
  if (is_shared) {
    head.block = block_;
    head.at = room_at_;
    origin_->send(head, nullptr, 0, nullptr);
  } else {
    origin_->send(head, memory->data(), layout.size(), memory);
  }
}

void Call::fail(std::uint16_t code, const std::string& text) {
  if (is_answered_.exchange(true) || origin_->is_gone()) return;
  trace_answer();
  give_room_back();
  auto kept = std::make_shared<std::string>(text.substr(0, kMaxText));
  Head head;
  head.kind = Kind::kError;
  head.method = code;
  head.call = number_;
  head.size = kept->size();
  origin_->send(head, reinterpret_cast<const std::byte*>(kept->data()), kept->size(), kept);
}

void Call::trace_answer() const {
  if (!is_traced_) return;
  trace::add(trace::What::kRequest, arrived_ns_, trace::now_ns(),
             {static_cast<std::uint64_t>(method_), caller().worker, caller().incarnation,
              method_ == Method::kPush ? push_.sequence : 0, static_cast<std::uint64_t>(waits_from_ns_),
              static_cast<std::uint64_t>(waits_to_ns_)});
}

}  // namespace fleet::plane
