#include "pool/gather.h"

#include <algorithm>

#include "keys/scratch.h"
#include "pool/row.h"
#include "threads/team.h"

namespace fleet {
namespace {

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
void walk(RowsOf<Float> rows, const std::int64_t* index, std::size_t left, Place* place, std::ptrdiff_t step,
          std::size_t count, Width width, const Visit& visit) {
  const bool prefetch = worth_prefetching(rows.num_rows, width);
  for (std::size_t i = 0; i < count; ++i, place += step) {
    if (prefetch && i + kRowsAhead < left) {
      prefetch_row(rows.data + static_cast<std::size_t>(index[i + kRowsAhead]) * width, width);
    }
    visit(rows.data + static_cast<std::size_t>(index[i]) * width, place);
  }
}

// Calls visit(row, place) for each place of some samples, sample by sample and within a sample slot by slot.
template <class Float, class Place, class Width, class Visit>
void each_place(RowsOf<Float> rows, const Places& places, Slice samples, Place* first, Width width,
                const Visit& visit) {
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

void gather(RowsOf<const float> rows, const Places& places, float* out) {
  const std::size_t parts = num_parts(places);
  with_width(rows.width, [&](auto width) {
    Team::shared().parallel_for(parts, [&](std::size_t part) {
      each_place(rows, places, slice_of(places.batch, parts, part), out, width,
                 [width](const float* row, float* place) { copy_row(row, place, width); });
    });
  });
}

// On one thread: of two that share the rows, each would read half of the gradients here and there, and take longer.
void scatter(const float* grad_out, const Places& places, RowsOf<float> grad_rows) {
  with_width(grad_rows.width, [&](auto width) {
    each_place(grad_rows, places, {0, places.batch}, grad_out, width,
               [width](float* row, const float* place) { add_row(place, row, width); });
  });
}

}  // namespace fleet
