// The pushes of one step as a single one, with each key once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "keys/unique.h"
#include "table/table.h"
#include "threads/team.h"

namespace fleet {

// What counts keys stops at the largest number.
inline std::uint32_t add_full(std::uint32_t a, std::uint32_t b) { return a + b < a ? 0xffffffffu : a + b; }

// Gradients and counters of equal keys are added, in the order of the pushes and within one in the order of its keys,
// beginning with zero; then gradients are multiplied by the scale. Where no key comes twice and all ascend, as our own
// workers send them, nothing is added, not even a zero. Works on the threads of the shared team; the bits do not depend
// on them.
class Summed {
 public:
  // count >= 1; step, lr, scale and what to skip are those of the first. The pushes must outlive this. `checks`:
  // whether anybody asks for is_finite().
  Summed(const Push* pushes, std::size_t count, std::size_t width, bool checks);
  Summed(const Summed&) = delete;
  Summed& operator=(const Summed&) = delete;

  const Push& push() const { return push_; }
  // Whether all gradients are, after they were added and multiplied.
  bool is_finite() const { return is_finite_; }

 private:
  void take_one(const Push& given, bool checks);
  void add_all(const Push* pushes, std::size_t count, bool checks);
  // Adds some inputs of a push to the sums of the keys that rank[i] names.
  void add(const Push& given, Slice inputs, const std::int64_t* rank, bool from_zero);
  // Multiplies some rows by the scale; whether they are finite, if that is asked.
  bool finish(Slice rows, bool checks);

  std::size_t width_;
  Push push_;
  bool is_finite_ = true;
  Unique unique_;
  Items<float> grads_;
  std::vector<float> shows_, clicks_;
  std::vector<std::uint32_t> counts_;
};

}  // namespace fleet
