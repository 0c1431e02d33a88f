// Many keys of an index, found a few at a time: memory is asked for ahead of its use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "keys/hash.h"
#include "table/index.h"

namespace fleet {

// work(i, number, place) for each key, in order; `number` is what the index has for it, or Index::kNone. Before the
// work of a group begins, ask(number) is called for each that was found, to fetch what lies there. Work may change the
// index: then what was found of the same group may have moved, and is for the work to find again.
template <class Ask, class Work>
void for_each_found(const Index& index, const std::int64_t* keys, std::size_t n, Ask&& ask, Work&& work) {
  constexpr std::size_t kGroup = 256;
  std::uint32_t places[kGroup], numbers[kGroup];
  for (std::size_t begin = 0; begin < n; begin += kGroup) {
    const std::size_t count = std::min(kGroup, n - begin);
    for (std::size_t i = 0; i < count; ++i) {
      places[i] = Index::place(mix64(keys[begin + i]));
      if (index.size() != 0) index.prefetch(places[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      numbers[i] = index.find(keys[begin + i], places[i]);
      if (numbers[i] != Index::kNone) ask(numbers[i]);
    }
    for (std::size_t i = 0; i < count; ++i) work(begin + i, numbers[i], places[i]);
  }
}

}  // namespace fleet
