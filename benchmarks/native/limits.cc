// What a table is measured against: the same rows by their number, without a hash table, a lock or a request.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

extern "C" {

// out[i] = the values of row rows[i]; a row is `stride` floats, the first `width` of them its values.
void gather(const float* table, std::size_t stride, std::size_t width, const std::int64_t* rows, std::size_t n,
            float* out) {
  for (std::size_t i = 0; i < n; ++i) {
    std::memcpy(out + i * width, table + static_cast<std::size_t>(rows[i]) * stride, width * sizeof(float));
  }
}

// Adagrad on the rows rows[i]: values, then one sum of squares for each.
void scatter(float* table, std::size_t width, const std::int64_t* rows, std::size_t n, const float* grads, float lr) {
  for (std::size_t i = 0; i < n; ++i) {
    float* __restrict values = table + static_cast<std::size_t>(rows[i]) * 2 * width;
    float* __restrict sums = values + width;
    const float* __restrict g = grads + i * width;
    for (std::size_t d = 0; d < width; ++d) {
      sums[d] += g[d] * g[d];
      values[d] -= lr * g[d] / (std::sqrt(sums[d]) + 1e-10f);
    }
  }
}
}
