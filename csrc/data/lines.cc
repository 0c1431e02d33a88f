#include "data/lines.h"

namespace fleet::data {

std::size_t count_lines(const char* text, std::size_t size) {
  std::size_t count = 0, at = 0;
  for (; at + 64 <= size; at += 64) {
    count += static_cast<std::size_t>(__builtin_popcountll(find(text + at, '\n', '\n', '\n')));
  }
  for (; at < size; ++at) count += text[at] == '\n';
  return count + (size != 0 && text[size - 1] != '\n');
}

}  // namespace fleet::data
