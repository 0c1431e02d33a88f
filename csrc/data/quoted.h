// A piece of somebody's text in a message.
#pragma once

#include <string>

namespace fleet::data {

// In quotes, short, and without what a terminal would obey.
inline std::string quoted(const char* first, const char* last) {
  constexpr std::ptrdiff_t kMost = 32;
  std::string text = "'";
  for (const char* p = first; p != last && p - first < kMost; ++p) text += *p >= ' ' && *p <= '~' ? *p : '?';
  return text + (last - first > kMost ? "..'" : "'");
}

}  // namespace fleet::data
