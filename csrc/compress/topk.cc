#include "compress/topk.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "keys/hash.h"
#include "keys/scratch.h"

namespace fleet {
namespace {

// How many values are looked at one by one when one of them is large enough.
constexpr std::size_t kBlock = 64;

// Neighbours in memory that are sampled together: they cost one cache miss.
constexpr std::size_t kRun = 4;

// |x| as an integer: in the order of the absolute values, NaN last.
std::int32_t magnitude(float x) {
  std::int32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits & 0x7fffffff;
}

// One number that is larger for a larger magnitude and, between equal ones, for a smaller place.
std::uint64_t rank_key(std::int32_t magnitude, std::size_t place) {
  return static_cast<std::uint64_t>(magnitude) << 32 | (0xffffffffu - static_cast<std::uint32_t>(place));
}

std::size_t place_of(std::uint64_t key) { return 0xffffffffu - static_cast<std::uint32_t>(key); }

template <bool kDecay, bool kNesterov>
struct Step {
  Correction c;

  float change(const Unsent& a, std::size_t i) const {
    const float d = c.scale * a.grad[i];
    return kDecay ? d + c.decay * a.weight[i] : d;
  }
  float momentum(const Unsent& a, std::size_t i) const { return c.mu * a.momentum[i] + change(a, i); }
  float sum(const Unsent& a, std::size_t i) const {
    const float momentum = this->momentum(a, i);
    return a.sum[i] + (kNesterov ? change(a, i) + c.mu * momentum : momentum);
  }
};

// The places of the k largest magnitudes so far, in ascending order, and a few more.
class Largest {
 public:
  Largest(std::size_t n, std::size_t k) : k_(k), room_(std::min(n, 2 * k) + kBlock), keys_(room_), work_(room_) {}

  // Only what is larger can be one of the k.
  std::int32_t floor() const { return floor_; }

  void restart(std::int32_t floor) {
    floor_ = floor;
    count_ = 0;
  }

  void look_at(const float* values, std::size_t first, std::size_t size) {
    if (count_ + size > room_) prune();
    std::uint64_t* const keys = keys_.data();
    std::size_t count = count_;
    for (std::size_t i = 0; i < size; ++i) {
      const std::int32_t m = magnitude(values[first + i]);
      keys[count] = rank_key(m, first + i);
      count += m > floor_;
    }
    count_ = count;
  }

  // Keeps the k largest, or all where there are fewer.
  void prune() {
    if (count_ <= k_) return;
    std::copy_n(keys_.data(), count_, work_.data());
    const auto kth = work_.data() + k_ - 1;
    std::nth_element(work_.data(), kth, work_.data() + count_, std::greater<>());
    const std::uint64_t least = *kth;
    count_ = static_cast<std::size_t>(
        std::remove_if(keys_.data(), keys_.data() + count_, [=](std::uint64_t key) { return key < least; }) -
        keys_.data());
    floor_ = static_cast<std::int32_t>(least >> 32);
  }

  std::size_t size() const { return count_; }
  std::size_t place(std::size_t i) const { return place_of(keys_[i]); }

 private:
  std::size_t k_, room_;
  Scratch<std::uint64_t> keys_, work_;
  std::size_t count_ = 0;
  std::int32_t floor_ = 0;
};

// A magnitude that most likely a little more than k of the new sums exceed; 0 where it is not worth a sample.
template <class Add>
std::int32_t estimate(const Unsent& a, const Add& step, std::size_t k, std::uint64_t seed) {
  if (k == 0) return INT32_MAX;
  const double share = static_cast<double>(k) / static_cast<double>(a.n);
  if (share > 0.5) return 0;
  // So many that about 32 of them are among the k; all of them where that saves no more than half.
  const auto wanted = static_cast<std::size_t>(std::max(32 / share, 1024.0));
  const bool all = 2 * wanted > a.n;
  const std::size_t run = all ? 1 : kRun, num_runs = all ? a.n : wanted / run, stride = a.n / num_runs;
  Scratch<std::int32_t> sample(num_runs * run);
  for (std::size_t r = 0; r < num_runs; ++r) {
    const std::size_t start = r * stride + (all ? 0 : mix64(static_cast<std::int64_t>(seed + r)) % (stride - run + 1));
    for (std::size_t i = 0; i < run; ++i) sample[r * run + i] = magnitude(step.sum(a, start + i));
  }
  const double expected = static_cast<double>(sample.size()) * share;
  const double margin = all ? 0.0 : 3 * std::sqrt(expected);
  const auto rank = std::min(static_cast<std::size_t>(expected + margin) + 1, sample.size() - 1);
  std::nth_element(sample.data(), sample.data() + rank, sample.data() + sample.size(), std::greater<>());
  return std::max(sample[rank] - 1, 0);
}

// Adds the gradient everywhere and collects the largest sums.
template <class Add>
void add(const Unsent& a, const Add& step, Largest& largest) {
  for (std::size_t first = 0; first < a.n; first += kBlock) {
    const std::size_t end = std::min(first + kBlock, a.n);
    const std::int32_t floor = largest.floor();
    std::int32_t found = 0;
    for (std::size_t i = first; i < end; ++i) {
      const float momentum = step.momentum(a, i), sum = step.sum(a, i);
      a.momentum[i] = momentum;
      a.sum[i] = sum;
      a.grad[i] = 0;
      found |= magnitude(sum) > floor;
    }
    if (found) largest.look_at(a.sum, first, end - first);
  }
}

template <class Add>
void collect(const Unsent& a, const Add& step, std::size_t k, std::uint64_t seed, Largest& largest) {
  const std::int32_t floor = estimate(a, step, k, seed);
  largest.restart(floor);
  add(a, step, largest);
  if (largest.size() >= k || floor == 0) return;
  // The sample misled us.
  largest.restart(0);
  for (std::size_t first = 0; first < a.n; first += kBlock) {
    largest.look_at(a.sum, first, std::min(kBlock, a.n - first));
  }
}

}  // namespace

std::size_t compress(const Unsent& a, const Correction& c, std::size_t k, std::uint64_t seed, std::int32_t* index,
                     float* value) {
  k = std::min(k, a.n);
  Largest largest(a.n, k);
  const bool decay = c.decay != 0;
  if (decay && c.nesterov) collect(a, Step<true, true>{c}, k, seed, largest);
  if (decay && !c.nesterov) collect(a, Step<true, false>{c}, k, seed, largest);
  if (!decay && c.nesterov) collect(a, Step<false, true>{c}, k, seed, largest);
  if (!decay && !c.nesterov) collect(a, Step<false, false>{c}, k, seed, largest);
  largest.prune();
  for (std::size_t i = 0; i < largest.size(); ++i) {
    const std::size_t place = largest.place(i);
    index[i] = static_cast<std::int32_t>(place);
    value[i] = a.sum[place];
    a.sum[place] = 0;
    a.momentum[place] = 0;
  }
  return largest.size();
}

}  // namespace fleet
