// MultiSlot text to columns. A line is a record: for each slot, in order, how many values it has and then the values.
//
//   1 0.5 3 17 4 17       a dense slot of one float, and a ragged slot of three ids
//
// Blanks are spaces, tabs and carriage returns; a line of nothing but blanks is no record. The text may be anything:
// what is wrong with it is told with the line, and no count is believed before its values have been seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fleet::data {

enum class SlotType : char { kFloat = 'f', kDouble = 'd', kInt = 'i' };

struct Slot {
  std::string name;
  SlotType type;
  std::size_t width;  // values of each record; 0: it may be any number but none
};

// What may stand in front of the slots, each as `1 text`.
struct Tags {
  bool has_id;
  bool has_content;
};

// The values of all records, one after the other, in the vector of the slot's type.
struct SlotColumn {
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<std::int64_t> ints;
  std::vector<std::int64_t> offsets;  // of a ragged slot: record r has values offsets[r] .. offsets[r + 1]
};

// "slot 'x' has no values", on the line-th line of the text counted from 0; "pad it".
struct Problem {
  std::size_t line;
  std::string what;
  std::string remedy;
};

struct Parsed {
  std::size_t consumed = 0;  // bytes of the lines that were read
  std::size_t num_lines = 0;
  std::size_t num_records = 0;
  std::vector<std::int64_t> ids;  // a hash of each record's id
  std::vector<SlotColumn> columns;
  std::optional<Problem> problem;  // then the columns are of no use
};

// Reads the whole lines of a text; what follows the last newline belongs to the next text, unless this is the last.
Parsed parse_multislot(const char* text, std::size_t size, bool is_last, const std::vector<Slot>& slots, Tags tags);

}  // namespace fleet::data
