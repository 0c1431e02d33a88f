// Some lines of a text at a time, as fields: the parser goes through them column by column.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "data/field.h"
#include "data/lines.h"

namespace fleet::data {

class Rows {
 public:
  // `text` is where the text begins: what lies in front of it cannot be read.
  Rows(const char* text, std::size_t num_columns, char delimiter)
      : text_(text), num_columns_(num_columns), delimiter_(delimiter), ends_(kMost * (num_columns + 1)) {}

  static constexpr std::size_t kMost = 64;

  std::size_t size() const { return lines_.size(); }
  bool is_full() const { return size() == kMost; }
  const Line& line(std::size_t row) const { return lines_[row]; }
  std::size_t number(std::size_t row) const { return numbers_[row]; }

  Field field(std::size_t row, std::size_t column) const {
    const char* const* const ends = &ends_[row * (num_columns_ + 1) + column];
    return {ends[0] + 1, ends[1]};
  }

  // Where the scanner writes the ends of the next line's fields.
  const char** room() { return &ends_[size() * (num_columns_ + 1) + 1]; }

  // Takes in the line whose ends have been written, the number-th of the text; otherwise says what is wrong with it.
  bool add(const Line& line, std::size_t number, std::string& what);

  // Keeps those rows only that are not failed.
  void keep(const std::vector<std::size_t>& failed);

  void clear() {
    lines_.clear();
    numbers_.clear();
    copies_.clear();
  }

 private:
  bool split_quoted(const Line& line, std::string& what);
  void copy(const Line& line);

  const char* const text_;
  const std::size_t num_columns_;
  const char delimiter_;
  std::vector<const char*> ends_;  // of each row: the byte in front of its first field, then the end of each
  std::vector<Line> lines_;
  std::vector<std::size_t> numbers_;
  std::deque<std::string> copies_;  // of lines that do not lie in the text as their fields must
};

}  // namespace fleet::data
