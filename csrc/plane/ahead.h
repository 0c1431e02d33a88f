// Parts of messages to come, on both sides of a connection.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "plane/frame.h"
#include "plane/incoming.h"
#include "plane/memory.h"
#include "plane/message.h"

namespace fleet::plane {

// What a server keeps of one client. Not safe to use from many threads.
class KeptParts {
 public:
  // Whether a part of this number may come: numbers grow, and there are not too many.
  bool may_come(std::uint64_t number) const { return number > newest_ && parts_.size() < kMaxParts; }
  // Null memory: there was no room for it.
  void keep(std::uint64_t number, std::shared_ptr<Memory> memory);
  void drop(std::uint64_t number) { parts_.erase(number); }
  void drop_before(std::uint64_t number) { parts_.erase(parts_.begin(), parts_.lower_bound(number)); }
  void clear() { parts_.clear(); }
  bool is_empty() const { return parts_.empty(); }
  // Puts parts where they belong in a message; false if one of them is not here, or is of another size.
  bool join(const std::vector<Part>& parts, std::byte* message) const;

 private:
  std::map<std::uint64_t, std::shared_ptr<Memory>> parts_;
  std::uint64_t newest_ = 0;
};

// What a client says of a call: that some bytes of a tensor were sent ahead, under this number.
struct Claim {
  std::size_t tensor = 0;
  std::size_t begin = 0;
  std::uint64_t number = 0;
};

// What a client has sent ahead. Not safe to use from many threads.
class SentParts {
 public:
  using Found = std::vector<std::pair<Claim, std::shared_ptr<Memory>>>;

  bool is_full() const { return parts_.size() >= kMaxParts; }
  // Notes some bytes, and says their number: no two in a process have the same.
  std::uint64_t add(std::shared_ptr<Memory> memory);
  void forget(std::uint64_t number) { parts_.erase(number); }
  void clear() { parts_.clear(); }
  // The smallest number that is still needed.
  std::uint64_t oldest() const { return parts_.empty() ? next_ : parts_.begin()->first; }
  // What is claimed, as far as it is known.
  Found find(const std::vector<Claim>& claims) const;

 private:
  std::map<std::uint64_t, std::shared_ptr<Memory>> parts_;
  std::uint64_t next_ = 1;
};

// Those claims that are true, as parts of a message: what was sent is, byte for byte, what the tensors hold now.
std::vector<Part> parts_of(const SentParts::Found& claimed, const std::vector<std::vector<Extent>>& tensors,
                           const Layout& layout);

// Copies a tensor to where it belongs in a message, but for bytes that are no gap of it.
void copy_gaps(const std::vector<Extent>& tensor, std::size_t begin, const std::vector<Gap>& gaps, std::byte* message);

}  // namespace fleet::plane
