// Lines of delimited text to columns, as a schema asks for them.
//
// A line is a record, and a line of nothing is none. Columns that nobody reads are passed over. A field without a byte
// is a gap, and so is one with a text that the plan names. The text may be anything: a line that cannot be read is left
// out, counted, and described if it is among the first of them. Fields in quotes, where these are looked for, are as in
// RFC 4180, but end on their line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "keys/array.h"

namespace fleet::data {

// What makes an id of a text.
enum class IdKind : char {
  kHash = 'h',    // the hash of the slot and the text (hash_text.h)
  kPlain = 'p',   // a decimal integer is its own id
  kBounds = 'b',  // that of the part between two bounds a number lies in
};

struct IdRule {
  IdKind kind;
  std::uint64_t seed;          // of the slot
  std::vector<double> bounds;  // ascending; part i has the numbers x with bounds[i - 1] <= x < bounds[i]
  std::int64_t gap;            // the id of a gap
  bool has_gap = true;         // false: a gap is an error
};

struct Reading {
  enum class Kind { kLabel, kNumber, kWeight, kId, kBag, kDouble, kText };

  Kind kind;
  std::size_t column;
  std::string name;
  bool has_log = false;  // a number x becomes sign(x) * log(1 + |x|)
  double missing = 0;    // what a gap among numbers becomes
  bool rounds = true;    // false: a number whose whole part float32 changes is an error
  IdRule id{IdKind::kHash, 0, {}, 0};
  bool has_separator = false;
  char separator = 0;
  std::size_t length = 0;  // of a matrix that keeps the last values and is filled up with gaps; 0: a bag of any length
};

struct Plan {
  std::size_t num_columns;
  char delimiter;
  bool has_quotes;
  std::vector<Reading> readings;    // those of one kind fill their matrix, or their list, in this order
  std::vector<std::string> gaps{};  // texts of fields, and of values of bags, that are gaps
  bool has_begins = false;          // whether the place of each record is asked for
};

struct BagColumn {
  Array<std::int64_t> matrix;  // [records, length] where a length is given, and otherwise:
  std::vector<std::int64_t> values, offsets;
};

// Fields as they stand in the text, without quotes, each with a newline behind it.
struct TextColumn {
  std::vector<std::uint8_t> bytes;
  std::vector<std::int64_t> offsets;
};

struct BadLine {
  std::size_t line;   // from 0, in the text
  std::size_t begin;  // its first byte
  std::string what;
};

struct Delimited {
  std::size_t num_lines = 0;  // all but those of nothing
  std::size_t num_records = 0;
  Array<float> labels, numbers, weights;  // [records, readings]; the arrays may be longer
  Array<std::int64_t> ids;
  Array<double> doubles;
  std::vector<BagColumn> bags;
  std::vector<TextColumn> texts;
  std::vector<std::int64_t> begins;  // the first byte of each record, where it is asked for
  std::vector<BadLine> bad;          // the first of those that were left out: num_lines - num_records
};

// Reads a text of whole lines; the last one needs no newline. A plan can be used by several threads.
Delimited parse_delimited(const char* text, std::size_t size, const Plan& plan);

}  // namespace fleet::data
