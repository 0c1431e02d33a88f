// First values of rows, and the largest norm that a row may have.
#include "table/limit.h"

#include <algorithm>
#include <cmath>

#include "rule/norm.h"
#include "table/table.h"

namespace fleet {

namespace {

double norm_of(const float* values, std::size_t n, double p) {
  if (p == 2) return norm(values, n);
  double total = 0;
  if (std::isinf(p)) {
    for (std::size_t i = 0; i < n; ++i) total = std::max(total, std::abs(static_cast<double>(values[i])));
    return total;
  }
  for (std::size_t i = 0; i < n; ++i) total += std::pow(std::abs(static_cast<double>(values[i])), p);
  return std::pow(total, 1 / p);
}

// Just below 1: times it, a number of this type becomes a smaller one, however it is rounded.
float one_less(Dtype dtype) {
  const int bits = dtype == Dtype::kFloat32 ? 23 : dtype == Dtype::kFloat16 ? 10 : 7;
  return 1.0f - std::ldexp(1.0f, -bits);
}

template <class Round>
void cut(float* values, std::size_t width, double max_norm, double p, float less, Round&& round) {
  round();
  const double norm = norm_of(values, width, p);
  if (!(norm > max_norm)) return;
  auto scale = static_cast<float>(max_norm / (norm + 1e-7));  // as torch has it
  // Rounded, a row may still be a little too long; how often is it cut? Once, as a rule.
  constexpr int kMostCuts = 8;
  for (int i = 0; i <= kMostCuts; ++i, scale = less) {
    for (std::size_t d = 0; d < width; ++d) values[d] *= scale;
    round();
    if (!(norm_of(values, width, p) > max_norm)) return;
  }
}

}  // namespace

void Table::first_value(std::int64_t key, float* values) const {
  options_.initializer->fill(seed_, key, values, format_.width);
  format_.round(values);
  limit_norm(values);
}

void Table::limit_norm(float* values) const {
  if (!options_.has_max_norm) return;
  cut(values, format_.width, options_.max_norm, options_.norm_type, one_less(format_.dtype),
      [&] { format_.round(values); });
}

void limit_norm(float* values, std::size_t width, double max_norm, double p) {
  cut(values, width, max_norm, p, one_less(Dtype::kFloat32), [] {});
}

}  // namespace fleet
