#include "keys/merge.h"

#include <algorithm>
#include <cstring>

#include "keys/scratch.h"

namespace fleet {
namespace {

// source[order[i]] = where row i lies; false unless every source is set.
bool find_sources(const Piece* pieces, std::size_t num_pieces, std::size_t row_bytes, const std::int64_t* order,
                  const Scratch<const char*>& source) {
  std::fill_n(source.data(), source.size(), nullptr);
  for (std::size_t p = 0; p < num_pieces; ++p) {
    // Rows of no bytes may lie nowhere; nothing is read from them.
    const char* row = row_bytes > 0 ? static_cast<const char*>(pieces[p].rows) : "";
    for (std::size_t i = 0; i < pieces[p].num_rows; ++i, row += row_bytes) {
      const auto target = static_cast<std::size_t>(*order++);  // a negative order becomes a huge one
      if (target >= source.size()) return false;
      source[target] = row;
    }
  }
  // As many rows as places: a place that is named twice leaves another one out.
  return std::find(source.data(), source.data() + source.size(), nullptr) == source.data() + source.size();
}

// A row size known to the compiler turns the copy of a short row into a few moves.
template <std::size_t kRowBytes>
void gather(const Scratch<const char*>& source, char* out) {
  for (std::size_t i = 0; i < source.size(); ++i) std::memcpy(out + i * kRowBytes, source[i], kRowBytes);
}

}  // namespace

// Each server's rows go to places all over the output. Written as they come, every cache line of it would be fetched
// once per server; so find out first where each row comes from, then write the output once from start to end.
bool merge(const Piece* pieces, std::size_t num_pieces, std::size_t row_bytes, const std::int64_t* order, void* out) {
  std::size_t total = 0;
  for (std::size_t p = 0; p < num_pieces; ++p) total += pieces[p].num_rows;
  Scratch<const char*> source(total);
  if (!find_sources(pieces, num_pieces, row_bytes, order, source)) return false;
  if (row_bytes == 0) return true;

  auto* const to = static_cast<char*>(out);
  switch (row_bytes) {
    case 4: gather<4>(source, to); break;
    case 8: gather<8>(source, to); break;
    case 16: gather<16>(source, to); break;
    case 32: gather<32>(source, to); break;
    case 64: gather<64>(source, to); break;
    default:
      for (std::size_t i = 0; i < total; ++i) std::memcpy(to + i * row_bytes, source[i], row_bytes);
  }
  return true;
}

}  // namespace fleet
