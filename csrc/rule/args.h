// Named numbers, as they come over the wire, read by the rule or initialiser that wants them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace fleet {

// Booleans are 0 and 1.
using Args = std::map<std::string, double>;

// What a number may be, and how an error says so: "must be >= 0".
struct Range {
  const char* text;
  bool (*holds)(double);
};

inline constexpr Range kAny{"a number", [](double) { return true; }};
inline constexpr Range kNonNegative{">= 0", [](double x) { return x >= 0; }};
inline constexpr Range kFraction{"in [0, 1)", [](double x) { return x >= 0 && x < 1; }};
inline constexpr Range kFlag{"0 or 1", [](double x) { return x == 0 || x == 1; }};

// Reads go first, check() last: an unknown name is the likelier cause of a missing one, so it is reported before it.
// Until then a bad argument reads as its default, or as 0 where it has none.
class Arguments {
 public:
  // `owner` begins every message: "rule adam". `given` must outlive this.
  Arguments(std::string owner, const Args& given) : owner_(std::move(owner)), given_(given) {}

  double number(const char* name, const Range& range, double fallback);
  double required(const char* name, const Range& range);
  bool flag(const char* name, bool fallback = false);

  // For what no single argument can tell; `problem` follows the owner's name.
  void require(bool holds, const std::string& problem);

  // Throws std::invalid_argument, in one line, if any of the above went wrong or a name was given that none asked for.
  void check() const;

 private:
  std::string owner_;
  const Args& given_;
  std::vector<std::string> asked_;
  std::string problem_;  // the first one
};

// 'name', with anything but printable ASCII as \xNN, so that a message stays one line.
std::string quoted(const std::string& name);

// A number as a user would write it.
std::string plain(double number);

// "; did you mean 'adam'? Known: adam, adamw"; without the question where nothing is near.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& known);

}  // namespace fleet
