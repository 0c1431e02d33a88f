// Which keys a run may hold: no for sure, or perhaps. All bits of a key lie in one cache line.
//
// Twelve bits for each key make one in about 200 keys that are not there a perhaps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "disk/file.h"

namespace fleet::disk {

class Bloom {
 public:
  static constexpr std::size_t kBitsEach = 12;

  Bloom() = default;
  // Empty, for so many keys.
  explicit Bloom(std::size_t num_keys);
  // With bits of a file, a multiple of a page.
  Bloom(Buffer bits, std::size_t bytes) : bits_(std::move(bits)), bytes_(bytes) {}

  // Bytes of a filter for so many keys; a multiple of a page, as a file has it.
  static std::size_t bytes_for(std::size_t num_keys) { return round_up(num_keys * kBitsEach / 8 + 64); }

  void add(std::uint64_t hash) {
    const Place place = place_of(hash);
    for (unsigned i = 0; i < kProbes; ++i) place.line[place.word(i)] |= place.bit(i);
  }

  bool may_hold(std::uint64_t hash) const {
    const Place place = place_of(hash);
    std::uint64_t missing = 0;
    for (unsigned i = 0; i < kProbes; ++i) missing |= ~place.line[place.word(i)] & place.bit(i);
    return missing == 0;
  }

  void prefetch(std::uint64_t hash) const { __builtin_prefetch(place_of(hash).line); }

  const std::byte* data() const { return bits_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr unsigned kProbes = 7;

  struct Place {
    std::uint64_t* line;
    std::uint64_t draws;  // nine bits for each probe

    unsigned word(unsigned i) const { return static_cast<unsigned>(draws >> (9 * i)) & 7u; }
    std::uint64_t bit(unsigned i) const { return std::uint64_t{1} << ((draws >> (9 * i + 3)) & 63u); }
  };

  // Keys of one shard share low bits of their hash, and those of one server high ones, so it is mixed once more.
  Place place_of(std::uint64_t hash) const {
    __extension__ using Wide = unsigned __int128;
    std::uint64_t mixed = (hash ^ (hash >> 29)) * 0xd6e8feb86659fd93u;
    mixed ^= mixed >> 32;
    const auto line = static_cast<std::size_t>((static_cast<Wide>(mixed * 0xbf58476d1ce4e5b9u) * (bytes_ / 64)) >> 64);
    auto* bits = reinterpret_cast<std::uint64_t*>(bits_.get());
    return {bits + line * 8, mixed};
  }

  Buffer bits_;
  std::size_t bytes_ = 0;
};

}  // namespace fleet::disk
