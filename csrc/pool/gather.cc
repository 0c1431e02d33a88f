#include "pool/gather.h"

#include <algorithm>
#include <utility>

#include "keys/scratch.h"
#include "pool/row.h"
#include "threads/team.h"

namespace fleet {
namespace {

// How many places to ask for a row in advance.
constexpr std::size_t kAhead = 16;

// How many samples to put in order at a time: few enough for their indices to stay in the first-level cache.
constexpr std::size_t kBlock = 64;

// The indices of some samples, which come slot by slot, sample by sample. Eight samples of a slot share a cache line;
// read one at a time, a batch of 2^k samples would need the same few lines of the cache for every slot.
void order_by_sample(const Places& places, std::size_t first_sample, std::size_t num_samples, std::int64_t* ordered) {
  constexpr std::size_t kLine = 8;
  const std::size_t num_slots = places.num_slots;
  std::size_t b = 0;
  for (; b + kLine <= num_samples; b += kLine, ordered += kLine * num_slots) {
    const std::int64_t* index = places.inverse + first_sample + b;
    for (std::size_t s = 0; s < num_slots; ++s, index += places.batch) {
      for (std::size_t i = 0; i < kLine; ++i) ordered[i * num_slots + s] = index[i];
    }
  }
  for (; b < num_samples; ++b) {
    const std::int64_t* index = places.inverse + first_sample + b;
    for (std::size_t s = 0; s < num_slots; ++s, index += places.batch) *ordered++ = *index;
  }
}

// Calls visit(row, place) for each of `count` places, `step` floats apart. `left` indices may be looked at in advance.
template <class Float, class Place, class Width, class Visit>
void walk(Rows<Float> rows, const std::int64_t* index, std::size_t left, Place* place, std::ptrdiff_t step,
          std::size_t count, Width width, const Visit& visit) {
  const bool prefetch = worth_prefetching(rows.num_rows, width);
  for (std::size_t i = 0; i < count; ++i, place += step) {
    if (prefetch && i + kAhead < left) {
      prefetch_row(rows.data + static_cast<std::size_t>(index[i + kAhead]) * width, width);
    }
    visit(rows.data + static_cast<std::size_t>(index[i]) * width, place);
  }
}

// Calls visit(row, place) for each place of some samples, sample by sample and within a sample slot by slot.
template <class Float, class Place, class Width, class Visit>
void each_place(Rows<Float> rows, const Places& places, Range samples, Place* first, Width width, const Visit& visit) {
  const std::size_t num_slots = places.num_slots, total_samples = samples.end - samples.begin;
  if (num_slots == 1) {
    Place* const place = first + static_cast<std::ptrdiff_t>(samples.begin) * places.stride;
    return walk(rows, places.inverse + samples.begin, total_samples, place, places.stride, total_samples, width, visit);
  }
  const auto step = static_cast<std::ptrdiff_t>(rows.width);
  const bool gapless = places.stride == static_cast<std::ptrdiff_t>(num_slots) * step;
  Scratch<std::int64_t> ordered(std::min(total_samples, kBlock) * num_slots);
  for (std::size_t b = samples.begin; b < samples.end; b += kBlock) {
    const std::size_t num_samples = std::min(kBlock, samples.end - b), total = num_samples * num_slots;
    order_by_sample(places, b, num_samples, ordered.data());
    Place* const block = first + static_cast<std::ptrdiff_t>(b) * places.stride;
    if (gapless) {
      walk(rows, ordered.data(), total, block, step, total, width, visit);
      continue;
    }
    for (std::size_t i = 0; i < num_samples; ++i) {
      walk(rows, ordered.data() + i * num_slots, total - i * num_slots,
           block + static_cast<std::ptrdiff_t>(i) * places.stride, step, num_slots, width, visit);
    }
  }
}

// How many parts to make of the samples; of a few thousand places each, or a thread would not be worth it.
std::size_t num_parts(const Places& places) {
  constexpr std::size_t kWorthAThread = std::size_t{1} << 14;
  return std::min(parts_for(places.batch * places.num_slots, kWorthAThread), std::max<std::size_t>(places.batch, 1));
}

// A use of a row: the floats of grad_out from `offset` on.
struct Use {
  std::uint32_t row;
  std::uint32_t offset;
};

// Whether every offset fits a Use.
bool fit_uses(const Places& places, Rows<float> rows) {
  constexpr std::uint64_t kMost = 0xffffffffu;
  if (places.stride < 0 || rows.num_rows > kMost || places.batch > kMost) return false;
  const auto stride = static_cast<std::uint64_t>(places.stride);
  return stride <= kMost && places.batch * stride + places.num_slots * rows.width <= kMost;
}

// The uses of some samples' rows, sample by sample and within a sample slot by slot.
void list_uses(const Places& places, Range samples, std::size_t width, Use* uses) {
  Scratch<std::int64_t> ordered(kBlock * places.num_slots);
  for (std::size_t first = samples.begin; first < samples.end; first += kBlock) {
    const std::size_t num_samples = std::min(kBlock, samples.end - first);
    order_by_sample(places, first, num_samples, ordered.data());
    const std::int64_t* row = ordered.data();
    for (std::size_t b = first; b < first + num_samples; ++b) {
      const std::size_t offset = b * static_cast<std::size_t>(places.stride);
      for (std::size_t s = 0; s < places.num_slots; ++s) {
        *uses++ = {static_cast<std::uint32_t>(*row++), static_cast<std::uint32_t>(offset + s * width)};
      }
    }
  }
}

// Runs of rows that are added to by one thread each; more of them than threads, for some rows are used all the time.
constexpr std::size_t kRowRuns = 64;

// Each part of the samples sorts its uses by run of rows; then each run takes its own, part by part: every row adds
// its gradients in the order of the samples, as a single thread does.
template <class Width>
void scatter_in_parts(const float* grad_out, const Places& places, Rows<float> grad_rows, std::size_t parts,
                      Width width) {
  int shift = 0;  // of a row to its run
  while ((grad_rows.num_rows >> shift) >= kRowRuns) ++shift;
  Scratch<Use> uses(places.batch * places.num_slots);
  Scratch<std::size_t> begins(parts * (kRowRuns + 1));  // of each part's runs
  Team::shared().parallel_for(parts, [&](std::size_t part) {
    const Range samples = range_of(places.batch, parts, part);
    const std::size_t count = (samples.end - samples.begin) * places.num_slots;
    Scratch<Use> found(count);
    list_uses(places, samples, width, found.data());
    std::size_t* const begin = begins.data() + part * (kRowRuns + 1);
    std::fill_n(begin, kRowRuns + 1, 0);
    for (std::size_t i = 0; i < count; ++i) ++begin[found[i].row >> shift];
    std::size_t sum = samples.begin * places.num_slots;
    for (std::size_t run = 0; run <= kRowRuns; ++run) sum += std::exchange(begin[run], sum);
    std::size_t next[kRowRuns];
    std::copy_n(begin, kRowRuns, next);
    for (std::size_t i = 0; i < count; ++i) uses[next[found[i].row >> shift]++] = found[i];
  });
  Team::shared().parallel_for(kRowRuns, [&](std::size_t run) {
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t* const begin = begins.data() + part * (kRowRuns + 1) + run;
      const Use* const last = uses.data() + begin[1];
      for (const Use* use = uses.data() + begin[0]; use != last; ++use) {
        if (last - use > static_cast<std::ptrdiff_t>(kAhead)) prefetch_row(grad_out + use[kAhead].offset, width);
        add_row(grad_out + use->offset, grad_rows.data + static_cast<std::size_t>(use->row) * width, width);
      }
    }
  });
}

}  // namespace

// Out of range is negative, or makes `last - x` negative: no branch, no comparison, two at a time on every machine.
bool all_below(const std::int64_t* index, std::size_t n, std::size_t limit) {
  const auto last = static_cast<std::uint64_t>(limit) - 1;
  std::uint64_t signs = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto x = static_cast<std::uint64_t>(index[i]);
    signs |= x | (last - x);
  }
  return n == 0 || (limit > 0 && signs >> 63 == 0);
}

void gather(Rows<const float> rows, const Places& places, float* out) {
  const std::size_t parts = num_parts(places);
  with_width(rows.width, [&](auto width) {
    Team::shared().parallel_for(parts, [&](std::size_t part) {
      each_place(rows, places, range_of(places.batch, parts, part), out, width,
                 [width](const float* row, float* place) { copy_row(row, place, width); });
    });
  });
}

void scatter(const float* grad_out, const Places& places, Rows<float> grad_rows) {
  const std::size_t parts = grad_rows.width > 0 && fit_uses(places, grad_rows) ? num_parts(places) : 1;
  with_width(grad_rows.width, [&](auto width) {
    if (parts > 1) return scatter_in_parts(grad_out, places, grad_rows, parts, width);
    each_place(grad_rows, places, {0, places.batch}, grad_out, width,
               [width](float* row, const float* place) { add_row(place, row, width); });
  });
}

}  // namespace fleet
