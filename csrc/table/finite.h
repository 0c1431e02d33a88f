#pragma once

#include <cstddef>

namespace fleet {

// Whether no value is a NaN or an Inf.
bool all_finite(const float* values, std::size_t n);

// The largest magnitude, 0 of none; infinity also for a NaN.
float largest(const float* values, std::size_t n);

}  // namespace fleet
