#include "data/rows.h"

#include <algorithm>

namespace fleet::data {

namespace {

constexpr std::size_t kRoom = 8;  // bytes in front of every field

std::string wrong_count(std::size_t found, std::size_t wanted) {
  return std::to_string(found) + (found == 1 ? " column" : " columns") + " instead of " + std::to_string(wanted);
}

}  // namespace

bool Rows::add(const Line& line, std::size_t number, std::string& what) {
  if (line.has_quote) {
    if (!split_quoted(line, what)) return false;
  } else if (line.num_columns != num_columns_) {
    what = wrong_count(line.num_columns, num_columns_);
    return false;
  } else if (static_cast<std::size_t>(line.first - text_) < kRoom) {
    copy(line);
  } else {
    room()[-1] = line.first - 1;
  }
  lines_.push_back(line);
  numbers_.push_back(number);
  return true;
}

void Rows::keep(const std::vector<std::size_t>& failed) {
  const std::size_t stride = num_columns_ + 1;
  std::size_t kept = 0;
  for (std::size_t row = 0; row < size(); ++row) {
    if (failed[row] != 0) continue;
    std::copy_n(&ends_[row * stride], stride, &ends_[kept * stride]);
    lines_[kept] = lines_[row];
    numbers_[kept++] = numbers_[row];
  }
  lines_.resize(kept);
  numbers_.resize(kept);
}

void Rows::copy(const Line& line) {
  const char** const ends = room();
  std::string& text = copies_.emplace_back(kRoom, ' ');
  text.append(line.first, line.last);
  for (std::size_t i = 0; i < num_columns_; ++i) ends[i] = text.data() + kRoom + (ends[i] - line.first);
  ends[-1] = text.data() + kRoom - 1;
}

// The fields without their quotes, one byte between them, whatever the fields hold.
bool Rows::split_quoted(const Line& line, std::string& what) {
  std::string& text = copies_.emplace_back(kRoom, ' ');
  text.reserve(kRoom + static_cast<std::size_t>(line.last - line.first) + 2);  // so that it never moves
  const char** const ends = room();
  ends[-1] = text.data() + kRoom - 1;
  std::size_t count = 0;
  for (const char* p = line.first;; ++p) {
    if (p != line.last && *p == '"') {
      for (++p;; ++p) {
        const auto rest = static_cast<std::size_t>(line.last - p);
        const void* const found = rest == 0 ? nullptr : std::memchr(p, '"', rest);
        if (found == nullptr) {
          what = "a quote that its line does not close";
          return false;
        }
        const char* const quote = static_cast<const char*>(found);
        text.append(p, quote);
        p = quote + 1;
        if (p == line.last || *p != '"') break;
        text += '"';
      }
      if (p != line.last && *p != delimiter_) {
        what = "text behind a closing quote";
        return false;
      }
    } else {
      const char* const end = std::find(p, line.last, delimiter_);
      text.append(p, end);
      p = end;
    }
    if (count < num_columns_) ends[count] = text.data() + text.size();
    ++count;
    text += delimiter_;
    if (p == line.last) break;
  }
  if (count != num_columns_) what = wrong_count(count, num_columns_);
  return count == num_columns_;
}

}  // namespace fleet::data
