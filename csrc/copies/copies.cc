#include "copies/copies.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "keys/hash.h"
#include "keys/route.h"
#include "keys/scratch.h"
#include "table/finite.h"
#include "table/found.h"
#include "table/limit.h"

namespace fleet {

double sharers(std::uint32_t touches, std::uint32_t num_workers) {
  return num_workers - (num_workers - 1.0) * std::ldexp(1.0, 1 - static_cast<int>(std::min(touches, 64u)));
}

Copies::Copies(CopyOptions options)
    : options_(std::move(options)),
      trained_floats_(options_.width + options_.rule->state_width(options_.width)),
      row_floats_(trained_floats_ + options_.width) {}

Located Copies::locate(const std::int64_t* keys, std::size_t n) const {
  Located found;
  found.epoch = epoch_;
  found.numbers.resize(n);
  const auto nothing = [](std::uint32_t) {};
  for_each_found(index_, keys, n, nothing,
                 [&](std::size_t i, std::uint32_t number, std::uint32_t) { found.numbers[i] = number; });
  return found;
}

void Copies::locate_again(const std::int64_t* keys, std::size_t n, Located& located) const {
  if (located.epoch != epoch_ || located.numbers.size() != n) located = locate(keys, n);
}

template <class Work>
void Copies::for_each(const Located& located, std::size_t floats, Work&& work) const {
  constexpr std::size_t kAhead = 16;
  const std::size_t n = located.numbers.size();
  for (std::size_t i = 0; i < n + kAhead; ++i) {
    if (i < n && located.numbers[i] != Index::kNone) {
      __builtin_prefetch(&marks_[located.numbers[i]]);
      const float* data = row(located.numbers[i]);
      for (std::size_t at = 0; at < floats; at += 16) __builtin_prefetch(data + at);
      __builtin_prefetch(data + floats - 1);
    }
    if (i >= kAhead) work(i - kAhead, located.numbers[i - kAhead]);
  }
}

std::vector<std::int64_t> Copies::missing(const Located& located) const {
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < located.numbers.size(); ++i) {
    if (is_wanted(located.numbers[i])) found.push_back(static_cast<std::int64_t>(i));
  }
  return found;
}

std::uint32_t Copies::add(std::int64_t key) {
  const std::uint32_t place = Index::place(mix64(key));
  const std::uint32_t known = index_.find(key, place);  // of two batches that are looked up ahead, the second
  if (known != Index::kNone) return known;
  const auto number = static_cast<std::uint32_t>(keys_.size());
  if (number / kBlock == blocks_.size()) make_room();
  keys_.push_back(key);
  marks_.push_back(kOld);
  slots_.push_back(Index::kNone);
  index_.insert(key, place, number);
  options_.rule->start(state(row(number)), options_.width);
  return number;
}

float* Copies::heard_for(std::uint32_t number) {
  if (slots_[number] == Index::kNone) {
    slots_[number] = num_slots_++;
    if (slots_[number] / kBlock == heard_.size()) heard_.emplace_back(kBlock * options_.width);
  }
  return heard(number);
}

// Many blocks come at once where there are many: they are worth large pages.
void Copies::make_room() {
  const std::size_t count = std::min(std::max<std::size_t>(blocks_.size() / 2, 1), kMostBlocks);
  memory_.emplace_back(count * kBlock * row_floats_);
  for (std::size_t i = 0; i < count; ++i) blocks_.push_back(memory_.back().data() + i * kBlock * row_floats_);
}

void Copies::pull(const Located& located, float* out) const {
  const std::size_t width = options_.width;
  for_each(located, width, [&](std::size_t i, std::uint32_t number) {
    if (number == Index::kNone) {
      std::fill_n(out + i * width, width, 0.0f);
    } else {
      std::copy_n(row(number), width, out + i * width);
    }
  });
}

void Copies::pull(const std::int64_t* keys, Located& located, const std::int64_t* positions, std::size_t num_fetched,
                  const float* fetched, float* out) {
  constexpr std::size_t kAhead = 16;
  const std::size_t width = options_.width;
  if (index_.size() + num_fetched > room_) {  // an index that grows by itself does so in small steps, for memory's sake
    room_ = std::max<std::size_t>(1024, 2 * (index_.size() + num_fetched));
    index_.reserve(room_);
  }
  for (std::size_t next = 0; next < num_fetched; ++next) {
    if (next + kAhead < num_fetched) {
      const auto ahead = static_cast<std::size_t>(positions[next + kAhead]);
      index_.prefetch(Index::place(mix64(keys[ahead])));
      if (located.numbers[ahead] != Index::kNone) __builtin_prefetch(row(located.numbers[ahead]), 1);
    }
    const auto i = static_cast<std::size_t>(positions[next]);
    std::uint32_t& number = located.numbers[i];
    if (number == Index::kNone) number = add(keys[i]);
    if (!is_wanted(number)) continue;
    marks_[number] = kFresh | kLevel;
    float* data = row(number);
    std::copy_n(fetched + next * width, width, data);
    std::copy_n(fetched + next * width, width, start_of(data));
  }
  pull(located, out);
}

std::size_t Copies::push(const std::int64_t* keys, const Located& located, const float* grads, double lr,
                         bool skip_nonfinite) {
  const std::size_t width = options_.width;
  std::size_t skipped = 0;
  for_each(located, trained_floats_, [&](std::size_t i, std::uint32_t number) {
    if (number == Index::kNone) number = index_.find(keys[i], Index::place(mix64(keys[i])));
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

std::shared_ptr<Copies::Difference> Copies::difference(std::uint32_t num_workers, std::uint32_t num_servers) {
  const std::size_t n = touched_.size(), width = options_.width;
  // A window is as large as the one before, and memory that has never been used costs more than what is written there.
  if (last_ == nullptr || last_.use_count() > 1 || last_->touches.size() < n || last_->touches.size() > 4 * n) {
    last_ = std::make_shared<Difference>();
    last_->sent = Array<float>(n * width);
    last_->touches = Array<std::uint32_t>(n);
  }
  Difference& result = *last_;
  Scratch<std::int64_t> keys(n);
  for (std::size_t i = 0; i < n; ++i) keys[i] = keys_[touched_[i]];
  Route routed = route(keys.data(), n, num_servers, false);
  result.keys = std::move(routed.grouped);
  result.offsets = std::move(routed.offsets);
  for (std::size_t i = 0; i < n; ++i) {
    constexpr std::size_t kAhead = 16;
    if (i + kAhead < n) {
      __builtin_prefetch(row(touched_[i + kAhead]));
      __builtin_prefetch(start_of(row(touched_[i + kAhead])), 1);
      __builtin_prefetch(result.sent.data() + static_cast<std::size_t>(routed.inverse[i + kAhead]) * width, 1);
    }
    const std::uint32_t number = touched_[i];
    const auto at = static_cast<std::size_t>(routed.inverse[i]);
    std::uint32_t& mark = marks_[number];
    const std::uint32_t touches = mark & kTouches;
    float* data = row(number);
    float* start = start_of(data);
    float* sent = result.sent.data() + at * width;
    const auto parts = static_cast<float>(parts_of(number, touches, num_workers));
    for (std::size_t d = 0; d < width; ++d) sent[d] = (data[d] - start[d]) / parts;
    mark &= ~kTouches;
    if (touches == 1 && num_workers > 1) {
      mark |= kLevel;
      whole_.push_back(number);
    } else if ((mark & kLevel) != 0) {
      std::copy_n(start, width, heard_for(number));
      mark &= ~kLevel;
    }
    std::copy_n(data, width, start);
    result.touches[at] = touches;
  }
  touched_.clear();
  return last_;
}

void Copies::merge(const std::int64_t* keys, std::size_t n, const float* sent, const std::uint32_t* touches,
                   const float* rows, std::uint32_t num_workers, double awaited) {
  const std::size_t width = options_.width;
  for_each(locate(keys, n), row_floats_, [&](std::size_t i, std::uint32_t number) {
    if (number == Index::kNone) return;
    float* own = row(number);
    float* start = start_of(own);
    float* server = heard_for(number);
    if ((marks_[number] & kLevel) != 0) std::copy_n(start, width, server);
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
    marks_[number] &= ~(kFresh | kLevel);
  });
}

void Copies::age() {
  for (const std::uint32_t number : whole_) {
    if ((marks_[number] & kTouches) == 0) marks_[number] = kOld | kLevel;
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
  ++epoch_;
  blocks_.clear();
  memory_.clear();
  keys_.clear();
  marks_.clear();
  slots_.clear();
  heard_.clear();
  num_slots_ = 0;
  last_ = nullptr;
  touched_.clear();
  whole_.clear();
}

std::size_t Copies::bytes() const {
  return (blocks_.size() * row_floats_ + heard_.size() * options_.width) * kBlock * sizeof(float) + index_.bytes() +
         keys_.capacity() * (sizeof(std::int64_t) + 2 * sizeof(std::uint32_t));
}

}  // namespace fleet
