// The largest norm that a row may have.
#pragma once

#include <cstddef>

namespace fleet {

// Scales values down to the norm, if theirs is larger; a second time changes nothing. `p`: 2, another power, infinity.
void limit_norm(float* values, std::size_t width, double max_norm, double p);

}  // namespace fleet
