#include "pool/weighted.h"

#include <algorithm>

#include "pool/row.h"

namespace fleet {
namespace {

// Calls visit(i, row, place) for each entry of each bag; the places of bags lie `stride` floats apart.
template <class Float, class Place, class Width, class Visit>
void each_entry(Float* rows, const Bags& bags, Place* place, std::ptrdiff_t stride, Width width, const Visit& visit) {
  for (std::size_t b = 0; b < bags.num_bags; ++b, place += stride) {
    const Span span = bag(bags, b);
    for (std::size_t i = span.begin; i < span.end; ++i) {
      visit(i, rows + static_cast<std::size_t>(bags.inverse[i]) * width, place);
    }
  }
}

}  // namespace

void pool_weighted(RowsOf<const float> rows, const Bags& bags, const float* weights, float* out,
                   std::ptrdiff_t stride) {
  for (std::size_t b = 0; b < bags.num_bags; ++b) {
    float* const place = out + static_cast<std::ptrdiff_t>(b) * stride;
    std::fill(place, place + rows.width, 0.0f);
  }
  with_width(rows.width, [&](auto width) {
    each_entry(rows.data, bags, out, stride, width,
               [=](std::size_t i, const float* row, float* place) { add_scaled_row(row, weights[i], place, width); });
  });
}

void unpool_weighted(const float* grad_out, std::ptrdiff_t stride, const Bags& bags, const float* weights,
                     RowsOf<float> grad_rows) {
  with_width(grad_rows.width, [&](auto width) {
    each_entry(grad_rows.data, bags, grad_out, stride, width,
               [=](std::size_t i, float* row, const float* grad) { add_scaled_row(grad, weights[i], row, width); });
  });
}

void grade_weights(const float* grad_out, std::ptrdiff_t stride, const Bags& bags, RowsOf<const float> rows,
                   float* grad_weights) {
  with_width(rows.width, [&](auto width) {
    each_entry(rows.data, bags, grad_out, stride, width, [=](std::size_t i, const float* row, const float* grad) {
      grad_weights[i] = dot_rows(row, grad, width);
    });
  });
}

}  // namespace fleet
