#include "pool/gather.h"

#include "pool/row.h"

namespace fleet {
namespace {

// How many places to ask for a row in advance.
constexpr std::size_t kAhead = 16;

// Calls visit(row, place) for each place, in order.
template <class Float, class Place, class Width, class Visit>
void each_place(Float* rows, std::size_t num_rows, const Places& places, Place* first, Width width,
                const Visit& visit) {
  if (places.num_slots == 0) return;
  const bool prefetch = worth_prefetching(num_rows, width);
  const std::size_t samples_ahead = kAhead / places.num_slots + 1;
  for (std::size_t b = 0; b < places.batch; ++b) {
    const std::int64_t* index = places.inverse + b;
    const std::size_t ahead = b + samples_ahead < places.batch ? samples_ahead : 0;
    Place* place = first + static_cast<std::ptrdiff_t>(b) * places.stride;
    for (std::size_t s = 0; s < places.num_slots; ++s, index += places.batch, place += width) {
      if (prefetch) prefetch_row(rows + static_cast<std::size_t>(index[ahead]) * width, width);
      visit(rows + static_cast<std::size_t>(*index) * width, place);
    }
  }
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
  with_width(rows.width, [&](auto width) {
    each_place(rows.data, rows.num_rows, places, out, width,
               [width](const float* row, float* place) { copy_row(row, place, width); });
  });
}

void scatter(const float* grad_out, const Places& places, Rows<float> grad_rows) {
  with_width(grad_rows.width, [&](auto width) {
    each_place(grad_rows.data, grad_rows.num_rows, places, grad_out, width,
               [width](float* row, const float* place) { add_row(place, row, width); });
  });
}

}  // namespace fleet
