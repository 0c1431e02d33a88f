#include "data/multislot.h"

#include <cmath>
#include <cstring>

#include "data/number.h"
#include "data/quoted.h"
#include "keys/hash.h"

namespace fleet::data {

namespace {

struct Token {
  const char* first;
  const char* last;
  bool is_end() const { return first == last; }
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// The next token of a line, which moves on behind it; an empty one at the end.
Token next(const char*& p, const char* end) {
  while (p != end && is_blank(*p)) ++p;
  Token token{p, p};
  while (p != end && !is_blank(*p)) ++p;
  token.last = p;
  return token;
}

std::string quoted(Token token) { return data::quoted(token.first, token.last); }

// FNV-1a, then mixed: ids that differ in the last character only must not lie together.
std::int64_t hash_text(Token token) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char* p = token.first; p != token.last; ++p) {
    h = (h ^ static_cast<unsigned char>(*p)) * 0x100000001b3u;
  }
  return static_cast<std::int64_t>(mix64(static_cast<std::int64_t>(h)));
}

Number read_value(Token token, float& value) {
  double wide = 0;
  const Number how = read_double(token.first, token.last, wide);
  value = static_cast<float>(wide);
  return how == Number::kOk && !std::isfinite(value) ? Number::kOutOfRange : how;
}
Number read_value(Token token, double& value) { return read_double(token.first, token.last, value); }
Number read_value(Token token, std::int64_t& value) { return read_int64(token.first, token.last, value); }

const char* type_name(SlotType type) {
  return type == SlotType::kInt ? "int64" : type == SlotType::kFloat ? "float32" : "float64";
}

// Reads the lines of one text. A function that finds something wrong notes it and returns false.
class Reader {
 public:
  Reader(const std::vector<Slot>& slots, Tags tags) : slots_(slots), tags_(tags) {
    parsed_.columns.resize(slots.size());
    for (std::size_t s = 0; s < slots.size(); ++s) {
      if (slots[s].width == 0) parsed_.columns[s].offsets.push_back(0);
    }
  }

  Parsed run(const char* text, std::size_t size, bool is_last) {
    const char* const end = text + size;
    for (const char* line = text; line != end;) {
      const void* const found = std::memchr(line, '\n', static_cast<std::size_t>(end - line));
      if (found == nullptr && !is_last) break;
      const char* const line_end = found == nullptr ? end : static_cast<const char*>(found);
      if (!read_line(line, line_end)) break;
      ++parsed_.num_lines;
      line = found == nullptr ? end : line_end + 1;
      parsed_.consumed = static_cast<std::size_t>(line - text);
    }
    return std::move(parsed_);
  }

 private:
  bool read_line(const char* p, const char* end) {
    while (p != end && is_blank(*p)) ++p;
    if (p == end) return true;
    if (tags_.has_id && !read_tag(p, end, "id", true)) return false;
    if (tags_.has_content && !read_tag(p, end, "content", false)) return false;
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      if (!read_slot(p, end, slots_[s], parsed_.columns[s])) return false;
    }
    const Token rest = next(p, end);
    if (!rest.is_end()) {
      return wrong("the line goes on with " + quoted(rest) + " behind its last slot '" + slots_.back().name + "'",
                   "write the slots of use_var and no others");
    }
    ++parsed_.num_records;
    return true;
  }

  bool read_tag(const char*& p, const char* end, const char* name, bool is_id) {
    const Token count = next(p, end), text = next(p, end);
    if (count.last - count.first != 1 || *count.first != '1' || text.is_end()) {
      return wrong(std::string("the line has no ") + name + " where it should have '1' and its " + name,
                   "write it in front of the slots, or do not ask for it");
    }
    if (is_id) parsed_.ids.push_back(hash_text(text));
    return true;
  }

  bool read_slot(const char*& p, const char* end, const Slot& slot, SlotColumn& column) {
    const Token token = next(p, end);
    if (token.is_end()) {
      return wrong("slot '" + slot.name + "' is missing", "write every slot of use_var, in its order");
    }
    std::int64_t count = 0;
    if (read_int64(token.first, token.last, count) != Number::kOk || count < 0) {
      return wrong("slot '" + slot.name + "' begins with " + quoted(token) + ", which is no number of values",
                   "write for each slot how many values it has, then the values");
    }
    if (count == 0) return wrong("slot '" + slot.name + "' has no values", "pad it");
    const auto num_values = static_cast<std::size_t>(count);
    if (slot.width != 0 && num_values != slot.width) {
      return wrong("slot '" + slot.name + "' has " + std::to_string(num_values) + " values where its shape has " +
                       std::to_string(slot.width),
                   "write " + std::to_string(slot.width) + ", or declare it with lod_level=1");
    }
    switch (slot.type) {
      case SlotType::kFloat: return read_values(p, end, num_values, slot, column.floats, column.offsets);
      case SlotType::kDouble: return read_values(p, end, num_values, slot, column.doubles, column.offsets);
      case SlotType::kInt: return read_values(p, end, num_values, slot, column.ints, column.offsets);
    }
    return false;
  }

  template <class T>
  bool read_values(const char*& p, const char* end, std::size_t count, const Slot& slot, std::vector<T>& values,
                   std::vector<std::int64_t>& offsets) {
    for (std::size_t i = 0; i < count; ++i) {
      const Token token = next(p, end);
      if (token.is_end()) {
        return wrong("slot '" + slot.name + "' should have " + std::to_string(count) +
                         " values and the line ends after " + std::to_string(i),
                     "write as many values as the count says");
      }
      T value{};
      const Number how = read_value(token, value);
      if (how != Number::kOk) return wrong_value(token, how, slot);
      values.push_back(value);
    }
    if (slot.width == 0) offsets.push_back(static_cast<std::int64_t>(values.size()));
    return true;
  }

  bool wrong_value(Token token, Number how, const Slot& slot) {
    const std::string type = type_name(slot.type);
    const bool is_int = slot.type == SlotType::kInt;
    return wrong("slot '" + slot.name + "' has " + quoted(token) +
                     (how == Number::kOutOfRange ? ", which " + type + " cannot hold"
                                                 : std::string(", which is no ") + (is_int ? "integer" : "number")),
                 is_int && how == Number::kMalformed ? "write an integer, or declare another dtype"
                                                     : "write a number that fits " + type);
  }

  bool wrong(std::string what, std::string remedy) {
    parsed_.problem = Problem{parsed_.num_lines, std::move(what), std::move(remedy)};
    return false;
  }

  const std::vector<Slot>& slots_;
  const Tags tags_;
  Parsed parsed_;
};

}  // namespace

Parsed parse_multislot(const char* text, std::size_t size, bool is_last, const std::vector<Slot>& slots, Tags tags) {
  return Reader(slots, tags).run(text, size, is_last);
}

}  // namespace fleet::data
