#include "pool/bags.h"

#include <algorithm>

#include "keys/scratch.h"
#include "pool/row.h"

namespace fleet {
namespace {

// How many of a bag's rows count in a mean.
std::size_t num_counted(const Bags& bags, Span span) {
  const std::size_t count = span.end - span.begin;
  if (bags.padding < 0) return count;
  return count - static_cast<std::size_t>(std::count(bags.inverse + span.begin, bags.inverse + span.end, bags.padding));
}

// Calls visit(row) for each row of the span, in order.
template <class Float, class Width, class Visit>
void each_row(Float* rows, bool prefetch, const Bags& bags, Span span, Width width, const Visit& visit) {
  for (std::size_t i = span.begin; i < span.end; ++i) {
    if (prefetch && i + kRowsAhead < bags.n) {
      prefetch_row(rows + static_cast<std::size_t>(bags.inverse[i + kRowsAhead]) * width, width);
    }
    visit(rows + static_cast<std::size_t>(bags.inverse[i]) * width);
  }
}

// out = the sum of a span's rows, of kColumns columns of each. So few stay in registers; were they summed in `out`,
// each addition would wait until the last one is written, which takes half as long again.
template <std::size_t kColumns, class Width>
void sum_columns(const float* rows, bool prefetch, const Bags& bags, Span span, Width width, float* out) {
  if constexpr (kColumns == 1) {
    float sum = 0.0f;
    each_row(rows, prefetch, bags, span, width, [&sum](const float* row) { sum += *row; });
    *out = sum;
  } else {
    // The last four may overlap those before them: what is summed twice comes out the same.
    constexpr std::size_t kFours = (kColumns + 3) / 4;
    constexpr auto at = [](std::size_t i) { return std::min(4 * i, kColumns - 4); };
    Four sums[kFours] = {};
    each_row(rows, prefetch, bags, span, width, [&sums, at](const float* row) {
      for (std::size_t i = 0; i < kFours; ++i) sums[i] += load_four(row + at(i));
    });
    for (std::size_t i = 0; i < kFours; ++i) store_four(out + at(i), sums[i]);
  }
}

template <std::size_t kWidth>
void sum_rows(const float* rows, bool prefetch, const Bags& bags, Span span, FixedWidth<kWidth> width, float* out) {
  sum_columns<kWidth>(rows, prefetch, bags, span, width, out);
}

void sum_rows(const float* rows, bool prefetch, const Bags& bags, Span span, AnyWidth width, float* out) {
  std::size_t d = 0;
  for (; d + 16 <= width; d += 16) sum_columns<16>(rows + d, prefetch && d == 0, bags, span, width, out + d);
  for (; d + 4 <= width; d += 4) sum_columns<4>(rows + d, prefetch && d == 0, bags, span, width, out + d);
  for (; d < width; ++d) sum_columns<1>(rows + d, prefetch && d == 0, bags, span, width, out + d);
}

}  // namespace

bool starts_ascend(const Bags& bags) {
  if (bags.num_starts == 0) return true;
  if (bags.start[0] != 0 || bags.start[bags.num_starts - 1] > static_cast<std::int64_t>(bags.n)) return false;
  return std::is_sorted(bags.start, bags.start + bags.num_starts);
}

void pool_bags(RowsOf<const float> rows, const Bags& bags, float* out, std::ptrdiff_t stride) {
  const bool prefetch = worth_prefetching(rows.num_rows, rows.width);
  with_width(rows.width, [&](auto width) {
    for (std::size_t b = 0; b < bags.num_bags; ++b, out += stride) {
      const Span span = bag(bags, b);
      sum_rows(rows.data, prefetch, bags, span, width, out);
      const std::size_t count = bags.mean ? num_counted(bags, span) : 1;
      if (count > 1) divide_row(out, static_cast<float>(count), width);
    }
  });
}

void unpool_bags(const float* grad_out, std::ptrdiff_t stride, const Bags& bags, RowsOf<float> grad_rows) {
  const bool prefetch = worth_prefetching(grad_rows.num_rows, grad_rows.width);
  Scratch<float> share(grad_rows.width);
  with_width(grad_rows.width, [&](auto width) {
    for (std::size_t b = 0; b < bags.num_bags; ++b, grad_out += stride) {
      const Span span = bag(bags, b);
      const std::size_t count = bags.mean ? num_counted(bags, span) : 1;
      const float* grad = grad_out;
      if (count > 1) {
        copy_row(grad_out, share.data(), width);
        divide_row(share.data(), static_cast<float>(count), width);
        grad = share.data();
      }
      each_row(grad_rows.data, prefetch, bags, span, width, [=](float* row) { add_row(grad, row, width); });
    }
  });
}

}  // namespace fleet
