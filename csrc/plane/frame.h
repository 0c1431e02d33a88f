// What goes over a connection: heads of 40 bytes, some with bytes behind them. Little-endian, as everything here.
//
// A client says HELLO with the job's token and is welcomed, or told why not. From then on it sends BLOCKs (a file of
// shared memory, by a Unix socket) and REQUESTs; each gets one REPLY or ERROR with its number, in any order.
//
// Parts of a request may be sent AHEAD of it, while its other bytes are not known yet. They are nothing by themselves:
// the server keeps them for a while, or not; the JOIN that follows is a request which says where in it they belong, and
// is refused, to be sent again in full, if one of them is not there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plane/message.h"

namespace fleet::plane {

enum class Kind : std::uint16_t {
  kHello = 1,    // behind it: the token
  kWelcome = 2,  // nothing
  kBlock = 3,    // `block`, `size`: its number and size; a file comes along
  kRequest = 4,  // behind it, or at the begin of `block`: a message of `size` bytes; `at`: where the answer may begin
  kReply = 5,    // behind it, or in `block` at `at`: a message of `size` bytes
  kError = 6,    // behind it: a text; `method` is its code
  kAhead = 7,    // behind it: `size` bytes of a message to come. `call`: their number, which only grows
  kJoin = 8,  // a request of `size` bytes; behind it: `parts` Parts, then those of its bytes that are in none of them
  // Of both, `at`: parts with a smaller number will not be needed (any more, after this message).
};

enum class Method : std::uint16_t { kPull = 1, kPush = 2, kMeet = 3, kFollow = 4 };
constexpr std::uint16_t kNumMethods = 4;

constexpr std::uint32_t kMagic = 0x31504c46;  // "FLP1"

struct Head {
  std::uint32_t magic = kMagic;
  Kind kind = Kind::kHello;
  std::uint16_t method = 0;
  std::uint64_t call = 0;
  std::uint64_t size = 0;
  std::uint64_t at = 0;
  std::uint32_t block = 0;  // 0: the bytes follow
  std::uint32_t parts = 0;
};
static_assert(sizeof(Head) == 40);

// What was sent ahead of a message: its number, and where in the message it belongs. In a message they ascend.
struct Part {
  std::uint64_t number = 0;
  std::uint64_t at = 0;
  std::uint64_t size = 0;
};
static_assert(sizeof(Part) == 24);

// Smaller messages are not worth a block.
constexpr std::size_t kInline = 4096;
// Room for a request and its answer.
constexpr std::size_t kMaxBlock = 2 * kMaxMessage + (1 << 20);
constexpr std::size_t kMaxToken = 4096;
// Of one connection, that were sent ahead and are neither used nor dropped.
constexpr std::size_t kMaxParts = 1024;
constexpr std::size_t kMaxText = 8192;

}  // namespace fleet::plane
