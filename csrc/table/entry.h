// When a key deserves a row.
//
// Until then it reads zeros and its gradients are skipped; a policy that counts keeps a mark of it, nothing more. Keys
// are judged when they are pushed, never when they are pulled, so evaluation leaves no trace. A verdict depends on the
// key, its counters and the step alone: the order in which workers arrive does not matter.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "table/slab.h"

namespace fleet {

class Entry {
 public:
  // always; count_filter(count); probability(probability); show_click(threshold, nonclk_coeff, click_coeff).
  // std::invalid_argument, in one line, for anything else.
  Entry(const std::string& name, const std::map<std::string, double>& args);

  bool is_always() const { return kind_ == Kind::kAlways; }
  // Whether keys without a row are remembered.
  bool counts() const { return kind_ == Kind::kCount || kind_ == Kind::kShowClick; }
  // Whether shows and clicks of each key are kept.
  bool has_clicks() const { return kind_ == Kind::kShowClick; }

  // Whether a key that has no row gets one now. `mark` and `clicks` include the present push.
  bool admits(std::uint64_t seed, std::int64_t key, const Mark& mark, const Clicks& clicks) const;

  // What a row is worth when a table is shrunk.
  double score(const Clicks& clicks) const {
    return (clicks.shows - clicks.clicks) * nonclk_coeff_ + clicks.clicks * click_coeff_;
  }

 private:
  enum class Kind { kAlways, kCount, kProbability, kShowClick };

  Kind kind_ = Kind::kAlways;
  double threshold_ = 0;  // count, probability or score
  double nonclk_coeff_ = 0.1;
  double click_coeff_ = 1.0;
};

}  // namespace fleet
