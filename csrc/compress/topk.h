// Gradients sent a few at a time: what a worker has not sent yet, and the largest of it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fleet {

// The values of one parameter, n of each. They must not overlap.
struct Unsent {
  float* grad;          // of this step; zeroes afterwards
  const float* weight;  // nullptr where decay is 0
  float* momentum;
  float* sum;  // what the others have not seen yet
  std::size_t n;
};

// d = scale * grad + decay * weight
// momentum = mu * momentum + d
// sum = sum + momentum, or with nesterov sum + (d + mu * momentum)
// each operation rounded to float, as separate operations on whole arrays would.
struct Correction {
  float scale;
  float decay;
  float mu;
  bool nesterov;
};

// Adds the gradient and takes away the k values of `sum` that are farthest from zero; of equals the first. Their places
// and values go to index and value in ascending order, and momentum and sum become zero there. Returns how many: fewer
// than k where fewer are not zero. A NaN counts as farther from zero than any number. `seed` may change how long it
// takes, not what comes out.
//
// One pass over the memory: a sample tells in advance about where the k-th value lies, and the pass that adds the
// gradient collects what is above. n must be less than 2^32 and index must be able to hold it.
std::size_t compress(const Unsent& unsent, const Correction& correction, std::size_t k, std::uint64_t seed,
                     std::int32_t* index, float* value);

// The same without momentum: sum = sum + grad, and grad stays as it is.
std::size_t take_largest(const float* grad, float* sum, std::size_t n, std::size_t k, std::uint64_t seed,
                         std::int32_t* index, float* value);

// out[index[i]] = value[i], and zeroes elsewhere. False, and nothing is written, unless places ascend and are below n.
// Others may write to index meanwhile: each place is read once.
bool spread(const std::int32_t* index, const float* value, std::size_t count, float* out, std::size_t n);

}  // namespace fleet
