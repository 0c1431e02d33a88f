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

// How a gradient is added: `sum` says what a sum will be, `add` makes it so.
template <bool kDecay, bool kNesterov>
struct Corrected {
  Unsent a;
  Correction c;

  std::size_t size() const { return a.n; }
  const float* sums() const { return a.sum; }
  float change(std::size_t i) const {
    const float d = c.scale * a.grad[i];
    return kDecay ? d + c.decay * a.weight[i] : d;
  }
  float momentum(std::size_t i) const { return c.mu * a.momentum[i] + change(i); }
  float sum(std::size_t i) const {
    const float momentum = this->momentum(i);
    return a.sum[i] + (kNesterov ? change(i) + c.mu * momentum : momentum);
  }
  float add(std::size_t i) const {
    const float momentum = this->momentum(i), sum = this->sum(i);
    a.momentum[i] = momentum;
    a.grad[i] = 0;
    return a.sum[i] = sum;
  }
};

struct Plain {
  const float* grad;
  float* sum_;
  std::size_t n;

  std::size_t size() const { return n; }
  const float* sums() const { return sum_; }
  float sum(std::size_t i) const { return sum_[i] + grad[i]; }
  float add(std::size_t i) const { return sum_[i] = sum(i); }
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
std::int32_t estimate(const Add& step, std::size_t k, std::uint64_t seed) {
  if (k == 0) return INT32_MAX;
  const std::size_t n = step.size();
  const double share = static_cast<double>(k) / static_cast<double>(n);
  if (share > 0.5) return 0;
  // So many that about 32 of them are among the k; all of them where that saves no more than half.
  const auto wanted = static_cast<std::size_t>(std::max(32 / share, 1024.0));
  const bool all = 2 * wanted > n;
  const std::size_t run = all ? 1 : kRun, num_runs = all ? n : wanted / run, stride = n / num_runs;
  Scratch<std::int32_t> sample(num_runs * run);
  for (std::size_t r = 0; r < num_runs; ++r) {
    const std::size_t start = r * stride + (all ? 0 : mix64(static_cast<std::int64_t>(seed + r)) % (stride - run + 1));
    for (std::size_t i = 0; i < run; ++i) sample[r * run + i] = magnitude(step.sum(start + i));
  }
  const double expected = static_cast<double>(sample.size()) * share;
  const double margin = all ? 0.0 : 3 * std::sqrt(expected);
  const auto rank = std::min(static_cast<std::size_t>(expected + margin) + 1, sample.size() - 1);
  std::nth_element(sample.data(), sample.data() + rank, sample.data() + sample.size(), std::greater<>());
  return std::max(sample[rank] - 1, 0);
}

// Adds the gradient everywhere and collects the largest sums.
template <class Add>
void add(const Add& step, Largest& largest) {
  for (std::size_t first = 0; first < step.size(); first += kBlock) {
    const std::size_t end = std::min(first + kBlock, step.size());
    const std::int32_t floor = largest.floor();
    std::int32_t found = 0;
    for (std::size_t i = first; i < end; ++i) found |= magnitude(step.add(i)) > floor;
    if (found) largest.look_at(step.sums(), first, end - first);
  }
}

template <class Add>
void collect(const Add& step, std::size_t k, std::uint64_t seed, Largest& largest) {
  const std::int32_t floor = estimate(step, k, seed);
  largest.restart(floor);
  add(step, largest);
  if (largest.size() < k && floor != 0) {  // the sample misled us
    largest.restart(0);
    for (std::size_t first = 0; first < step.size(); first += kBlock) {
      largest.look_at(step.sums(), first, std::min(kBlock, step.size() - first));
    }
  }
  largest.prune();
}

// Moves the largest sums to index and value.
std::size_t take(const Largest& largest, float* sum, std::int32_t* index, float* value) {
  for (std::size_t i = 0; i < largest.size(); ++i) {
    const std::size_t place = largest.place(i);
    index[i] = static_cast<std::int32_t>(place);
    value[i] = sum[place];
    sum[place] = 0;
  }
  return largest.size();
}

}  // namespace

std::size_t compress(const Unsent& a, const Correction& c, std::size_t k, std::uint64_t seed, std::int32_t* index,
                     float* value) {
  k = std::min(k, a.n);
  Largest largest(a.n, k);
  const bool decay = c.decay != 0;
  if (decay && c.nesterov) collect(Corrected<true, true>{a, c}, k, seed, largest);
  if (decay && !c.nesterov) collect(Corrected<true, false>{a, c}, k, seed, largest);
  if (!decay && c.nesterov) collect(Corrected<false, true>{a, c}, k, seed, largest);
  if (!decay && !c.nesterov) collect(Corrected<false, false>{a, c}, k, seed, largest);
  const std::size_t count = take(largest, a.sum, index, value);
  for (std::size_t i = 0; i < count; ++i) a.momentum[index[i]] = 0;
  return count;
}

std::size_t take_largest(const float* grad, float* sum, std::size_t n, std::size_t k, std::uint64_t seed,
                         std::int32_t* index, float* value) {
  k = std::min(k, n);
  Largest largest(n, k);
  collect(Plain{grad, sum, n}, k, seed, largest);
  return take(largest, sum, index, value);
}

bool spread(const std::int32_t* index, const float* value, std::size_t count, float* out, std::size_t n) {
  Scratch<std::int32_t> places(count);
  std::int64_t last = -1;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t place = __atomic_load_n(index + i, __ATOMIC_RELAXED);
    if (place <= last || static_cast<std::size_t>(place) >= n) return false;
    last = places[i] = place;
  }
  std::fill_n(out, n, 0.0f);
  for (std::size_t i = 0; i < count; ++i) out[places[i]] = value[i];
  return true;
}

}  // namespace fleet
