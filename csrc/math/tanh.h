// tanh of many floats, several times as fast as one call each.
#pragma once

#include <cstddef>

namespace fleet {

// values[r][c] = tanh(values[r][c] + bias[c]), for rows x columns floats; within 4e-7 of the exact result, relatively.
// A NaN stays one.
void add_bias_and_tanh(float* values, const float* bias, std::size_t rows, std::size_t columns);

}  // namespace fleet
