// Bags whose rows have a weight each.
#pragma once

#include "pool/bags.h"

namespace fleet {

// out[b] = the sum of weights[i] * row of each entry i of bag b, in order. `bags` must not ask for a mean.
void pool_weighted(RowsOf<const float> rows, const Bags& bags, const float* weights, float* out, std::ptrdiff_t stride);

// grad_rows[row] += weight * gradient of each use of the row, bag by bag: always the same bits.
void unpool_weighted(const float* grad_out, std::ptrdiff_t stride, const Bags& bags, const float* weights,
                     RowsOf<float> grad_rows);

// grad_weights[i] = row of entry i times the gradient of its bag; entries that are in no bag are left alone.
void grade_weights(const float* grad_out, std::ptrdiff_t stride, const Bags& bags, RowsOf<const float> rows,
                   float* grad_weights);

}  // namespace fleet
