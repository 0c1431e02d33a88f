// What goes over a connection: heads of 40 bytes, some with bytes behind them. Little-endian, as everything here.
//
// A client says HELLO with the job's token and is welcomed, or told why not. From then on it sends BLOCKs (a file of
// shared memory, by a Unix socket) and REQUESTs; each gets one REPLY or ERROR with its number, in any order.
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
};

enum class Method : std::uint16_t { kPull = 1, kPush = 2, kMeet = 3 };
constexpr std::uint16_t kNumMethods = 3;

constexpr std::uint32_t kMagic = 0x31504c46;  // "FLP1"

struct Head {
  std::uint32_t magic = kMagic;
  Kind kind = Kind::kHello;
  std::uint16_t method = 0;
  std::uint64_t call = 0;
  std::uint64_t size = 0;
  std::uint64_t at = 0;
  std::uint32_t block = 0;  // 0: the bytes follow
  std::uint32_t unused = 0;
};
static_assert(sizeof(Head) == 40);

// Smaller messages are not worth a block.
constexpr std::size_t kInline = 4096;
// Room for a request and its answer.
constexpr std::size_t kMaxBlock = 2 * kMaxMessage + (1 << 20);
constexpr std::size_t kMaxToken = 4096;
constexpr std::size_t kMaxText = 8192;

}  // namespace fleet::plane
