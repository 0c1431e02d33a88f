#include "copies/copies.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "keys/hash.h"
#include "table/finite.h"
#include "table/found.h"
#include "table/limit.h"

namespace fleet {

double sharers(std::uint32_t touches, std::uint32_t num_workers) {
  return num_workers - (num_workers - 1.0) * std::ldexp(1.0, 1 - static_cast<int>(std::min(touches, 64u)));
}

Copies::Copies(CopyOptions options)
    : options_(std::move(options)), row_floats_(3 * options_.width + options_.rule->state_width(options_.width)) {}

template <class Work>
void Copies::for_each(const std::int64_t* keys, std::size_t n, Work&& work) const {
  const auto ask = [&](std::uint32_t number) {
    __builtin_prefetch(&marks_[number]);
    const float* data = row(number);
    for (std::size_t at = 0; at < row_floats_; at += 16) __builtin_prefetch(data + at);
  };
  for_each_found(index_, keys, n, ask, work);
}

std::vector<std::int64_t> Copies::missing(const std::int64_t* keys, std::size_t n) const {
  std::vector<std::int64_t> found;
  const auto nothing = [](std::uint32_t) {};
  for_each_found(index_, keys, n, nothing, [&](std::size_t i, std::uint32_t number, std::uint32_t) {
    if (is_wanted(number)) found.push_back(static_cast<std::int64_t>(i));
  });
  return found;
}

std::uint32_t Copies::add(std::int64_t key, std::uint32_t place) {
  const auto number = static_cast<std::uint32_t>(keys_.size());
  if (number / kBlock == blocks_.size()) blocks_.emplace_back(kBlock * row_floats_);
  if (number == room_) {  // an index that grows by itself does so in small steps, for memory's sake
    room_ = std::max<std::size_t>(1024, 2 * room_);
    index_.reserve(room_);
  }
  keys_.push_back(key);
  marks_.push_back(0);
  index_.insert(key, place, number);
  options_.rule->start(state(row(number)), options_.width);
  return number;
}

void Copies::pull(const std::int64_t* keys, std::size_t n, float* out) const {
  const std::size_t width = options_.width;
  for_each(keys, n, [&](std::size_t i, std::uint32_t number, std::uint32_t) {
    if (number == Index::kNone) {
      std::fill_n(out + i * width, width, 0.0f);
    } else {
      std::copy_n(row(number), width, out + i * width);
    }
  });
}

void Copies::pull(const std::int64_t* keys, std::size_t n, const std::int64_t* positions, std::size_t num_fetched,
                  const float* fetched, float* out) {
  const std::size_t width = options_.width;
  std::size_t next = 0;
  for_each(keys, n, [&](std::size_t i, std::uint32_t number, std::uint32_t place) {
    float* to = out + i * width;
    if (next < num_fetched && static_cast<std::size_t>(positions[next]) == i) {
      const float* from = fetched + next++ * width;
      if (is_wanted(number)) {
        if (number == Index::kNone) number = add(keys[i], place);
        marks_[number] = kFresh;
        float* data = row(number);
        std::copy_n(from, width, data);
        std::copy_n(from, width, start_of(data));
        std::copy_n(from, width, heard_of(data));
      }
    }
    if (number == Index::kNone) {
      std::fill_n(to, width, 0.0f);
    } else {
      std::copy_n(row(number), width, to);
    }
  });
}

std::size_t Copies::push(const std::int64_t* keys, std::size_t n, const float* grads, double lr, bool skip_nonfinite) {
  const std::size_t width = options_.width;
  std::size_t skipped = 0;
  for_each(keys, n, [&](std::size_t i, std::uint32_t number, std::uint32_t) {
    if (number == Index::kNone) {
      throw std::invalid_argument("table '" + options_.name + "': key " + std::to_string(keys[i]) +
                                  " has a gradient and no copy; look it up before each step");
    }
    const float* from = grads + i * width;
    if (skip_nonfinite && !all_finite(from, width)) {
      ++skipped;
      return;
    }
    float* data = row(number);
    options_.rule->apply(data, state(data), from, width, lr);
    settle(data);
    std::uint32_t& mark = marks_[number];
    mark &= ~kOld;
    if ((mark & kTouches) == 0) touched_.push_back(number);
    if ((mark & kTouches) != kTouches) ++mark;
  });
  return skipped;
}

Copies::Difference Copies::difference(std::uint32_t num_workers) {
  const std::size_t n = touched_.size(), width = options_.width;
  Difference result{Array<std::int64_t>(n), Array<float>(n * width), Array<std::uint32_t>(n)};
  for (std::size_t i = 0; i < n; ++i) {
    if (i + 16 < n) __builtin_prefetch(row(touched_[i + 16]));
    const std::uint32_t number = touched_[i];
    const std::uint32_t touches = marks_[number] & kTouches;
    float* data = row(number);
    float* start = start_of(data);
    float* sent = result.sent.data() + i * width;
    const auto parts = static_cast<float>(parts_of(number, touches, num_workers));
    for (std::size_t d = 0; d < width; ++d) sent[d] = (data[d] - start[d]) / parts;
    std::copy_n(data, width, start);
    marks_[number] &= ~kTouches;
    if (touches == 1 && num_workers > 1) {
      std::copy_n(data, width, heard_of(data));
      whole_.push_back(number);
    }
    result.keys[i] = keys_[number];
    result.touches[i] = touches;
  }
  touched_.clear();
  return result;
}

void Copies::merge(const std::int64_t* keys, std::size_t n, const float* sent, const std::uint32_t* touches,
                   const float* rows, std::uint32_t num_workers, double awaited) {
  const std::size_t width = options_.width;
  for_each(keys, n, [&](std::size_t i, std::uint32_t number, std::uint32_t) {
    if (number == Index::kNone) return;
    float* own = row(number);
    float* start = start_of(own);
    float* server = heard_of(own);
    const float* now = rows + i * width;
    const float* mine = sent + i * width;
    if (!is_alone(server, mine, now)) {
      const auto rest = static_cast<float>((parts_of(number, touches[i], num_workers) - 1.0) * awaited);
      for (std::size_t d = 0; d < width; ++d) {
        const float target = now[d] + rest * mine[d];
        own[d] = own[d] == start[d] ? target : own[d] + (target - start[d]);
        start[d] = target;
      }
      settle(own);
      marks_[number] &= ~kAlone;
    } else if (awaited == 0 && (marks_[number] & kFresh) == 0) {
      std::copy_n(now, width, start);  // what was not sent is part of the next difference
      marks_[number] |= kAlone;
    }
    std::copy_n(now, width, server);
    marks_[number] &= ~kFresh;
  });
}

void Copies::age() {
  for (const std::uint32_t number : whole_) {
    if ((marks_[number] & kTouches) == 0) marks_[number] = kOld;
  }
  whole_.clear();
}

void Copies::settle(float* values) const {
  if (options_.has_bounds) {
    for (std::size_t d = 0; d < options_.width; ++d)
      values[d] = std::min(std::max(values[d], options_.low), options_.high);
  }
  if (options_.has_max_norm) limit_norm(values, options_.width, options_.max_norm, options_.norm_type);
}

bool Copies::is_alone(const float* server, const float* sent, const float* now) const {
  for (std::size_t d = 0; d < options_.width; ++d) {
    float expected = server[d] + sent[d];
    if (options_.has_bounds) expected = std::min(std::max(expected, options_.low), options_.high);
    if (!(std::fabs(now[d] - expected) <= options_.tolerance * std::fabs(expected))) return false;
  }
  return true;
}

void Copies::clear() {
  index_ = Index();
  room_ = 0;
  blocks_.clear();
  keys_.clear();
  marks_.clear();
  touched_.clear();
  whole_.clear();
}

std::size_t Copies::bytes() const {
  return blocks_.size() * kBlock * row_floats_ * sizeof(float) + index_.bytes() +
         keys_.capacity() * (sizeof(std::int64_t) + sizeof(std::uint32_t));
}

}  // namespace fleet
