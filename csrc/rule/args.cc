#include "rule/args.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <stdexcept>

namespace fleet {

namespace {

// Single letters inserted, left out or replaced.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// Values are kept in float32, so 1e300 is no more a number than infinity is.
bool is_number(double x) {
  constexpr double kMax = std::numeric_limits<float>::max();
  return x >= -kMax && x <= kMax;
}

}  // namespace

std::string quoted(const std::string& name) {
  constexpr std::size_t kLongest = 80;
  constexpr char kHex[] = "0123456789abcdef";
  std::string text = "'";
  for (const char c : name.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      text += c;
    } else {
      text += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return text + (name.size() > kLongest ? "...'" : "'");
}

std::string plain(double number) {
  // Not with a stream: where a compiler links its C++ library statically, streams here and in torch share parts of
  // their locales, and printing a number gives nothing or crashes.
  char digits[32];
  std::string text(digits, std::snprintf(digits, sizeof digits, "%g", number));
  std::replace(text.begin(), text.end(), ',', '.');  // of a locale that writes it so
  return text;
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& known) {
  std::string nearest, all;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  const std::string head = name.substr(0, 80);  // a name as long as a message may be is no typing error
  for (const std::string& one : known) {
    const std::size_t distance = edit_distance(head, one);
    if (distance < least && distance <= std::max(one.size(), head.size()) / 2) {
      least = distance;
      nearest = one;
    }
    all += (all.empty() ? "" : ", ") + one;
  }
  return (nearest.empty() ? ". Known: " : "; did you mean " + quoted(nearest) + "? Known: ") +
         (all.empty() ? "none" : all);
}

double Arguments::number(const char* name, const Range& range, double fallback) {
  asked_.emplace_back(name);
  const auto found = given_.find(name);
  if (found == given_.end()) return fallback;
  const double value = found->second;
  if (!is_number(value)) {
    require(false, std::string(name) + " must be a finite float32 number, got " + plain(value));
    return fallback;
  }
  if (!range.holds(value)) {
    require(false, std::string(name) + " must be " + range.text + ", got " + plain(value));
    return fallback;
  }
  return value;
}

double Arguments::required(const char* name, const Range& range) {
  require(given_.count(name) != 0, std::string(name) + " is missing; it must be " + range.text);
  return number(name, range, 0);
}

bool Arguments::flag(const char* name, bool fallback) { return number(name, kFlag, fallback) != 0; }

void Arguments::require(bool holds, const std::string& problem) {
  if (!holds && problem_.empty()) problem_ = problem;
}

void Arguments::check() const {
  for (const auto& [name, value] : given_) {
    if (std::find(asked_.begin(), asked_.end(), name) != asked_.end()) continue;
    throw std::invalid_argument(owner_ + ": unknown argument " + quoted(name) + did_you_mean(name, asked_));
  }
  if (!problem_.empty()) throw std::invalid_argument(owner_ + ": " + problem_);
}

}  // namespace fleet
