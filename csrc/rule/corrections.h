// Adam's bias corrections 1 - beta^t for t = 1, 2, ..., ready when a row asks: rows are short, and a power is not.
#pragma once

#include <cstddef>
#include <vector>

namespace fleet {

class Corrections {
 public:
  // kReciprocal keeps 1 / (1 - beta^t), kReciprocalRoot 1 / sqrt(1 - beta^t).
  enum class Kind { kReciprocal, kReciprocalRoot };

  // Requires 0 <= beta < 1.
  Corrections(double beta, Kind kind);

  // Of step t >= 1. Past the table it is 1: that is where the correction rounds to 1 in float, unless the table was cut
  // at its largest size, as for a beta within 2e-5 of 1.
  double at(std::size_t t) const {
    if (t <= table_.size()) return table_[t - 1];
    return cut_ ? computed(t) : 1.0;
  }

  // Of a count kept as a float, also where it is none because the state came from a damaged file.
  double at_count(float count) const {
    constexpr float kLast = 16777216;  // 2^24: one more is the same float
    return at(count > 1 ? static_cast<std::size_t>(count < kLast ? count : kLast) : 1);
  }

  std::size_t size() const { return table_.size(); }

 private:
  double computed(std::size_t t) const;

  double beta_;
  Kind kind_;
  bool cut_ = false;
  std::vector<double> table_;
};

}  // namespace fleet
