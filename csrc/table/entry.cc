#include "table/entry.h"

#include <cmath>
#include <stdexcept>

#include "keys/hash.h"

namespace fleet {

namespace {

double take(const std::string& name, std::map<std::string, double>& args, const std::string& arg) {
  const auto found = args.find(arg);
  if (found == args.end()) throw std::invalid_argument("entry " + name + " needs " + arg);
  const double value = found->second;
  args.erase(found);
  if (!std::isfinite(value)) throw std::invalid_argument("entry " + name + ": " + arg + " must be a finite number");
  return value;
}

}  // namespace

Entry::Entry(const std::string& name, const std::map<std::string, double>& given) {
  std::map<std::string, double> args = given;
  if (name == "always") {
    kind_ = Kind::kAlways;
  } else if (name == "count_filter") {
    kind_ = Kind::kCount;
    threshold_ = take(name, args, "count");
    if (threshold_ < 0) throw std::invalid_argument("entry count_filter: count must be >= 0");
  } else if (name == "probability") {
    kind_ = Kind::kProbability;
    threshold_ = take(name, args, "probability");
    if (!(threshold_ > 0 && threshold_ < 1)) {
      throw std::invalid_argument("entry probability: probability must be between 0 and 1");
    }
  } else if (name == "show_click") {
    kind_ = Kind::kShowClick;
    threshold_ = take(name, args, "threshold");
    nonclk_coeff_ = take(name, args, "nonclk_coeff");
    click_coeff_ = take(name, args, "click_coeff");
  } else {
    throw std::invalid_argument("there is no entry policy '" + name +
                                "'; there are always, count_filter, probability and show_click");
  }
  if (!args.empty()) throw std::invalid_argument("entry " + name + " has no argument '" + args.begin()->first + "'");
}

bool Entry::admits(std::uint64_t seed, std::int64_t key, const Mark& mark, const Clicks& clicks) const {
  switch (kind_) {
    case Kind::kAlways: return true;
    case Kind::kCount: return mark.seen >= threshold_;
    case Kind::kProbability: {
      // Drawn anew at every step the key is seen in, so that frequent keys enter soon; nothing has to be remembered.
      const std::uint64_t draw = mix64(static_cast<std::int64_t>(mix64(key) ^ seed ^ (std::uint64_t{mark.step} << 20)));
      return static_cast<double>(draw >> 11) * 0x1p-53 < threshold_;
    }
    case Kind::kShowClick: return score(clicks) >= threshold_;
  }
  return false;
}

}  // namespace fleet
