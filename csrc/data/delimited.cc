#include "data/delimited.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "data/field.h"
#include "data/lines.h"
#include "data/quoted.h"
#include "data/rounding.h"
#include "data/rows.h"

namespace fleet::data {

namespace {

using Kind = Reading::Kind;

constexpr std::size_t kMostDescribed = 8;
constexpr char kRemedy[] = "declare it with dtype='float64' or 'int64', or 'float32' to have it rounded";

// Ids of the parts between bounds: the hash of the part's place, as text.
std::vector<std::int64_t> part_ids(const IdRule& rule) {
  std::vector<std::int64_t> places(rule.bounds.size() + 1), ids(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int64_t>(i);
  hash_numbers(rule.seed, places.data(), places.size(), ids.data());
  return ids;
}

struct Step {
  const Reading* reading;
  std::size_t place;  // among the readings of its kind
  std::vector<std::int64_t> part_ids;
};

class Parser {
 public:
  Parser(const char* text, std::size_t size, const Plan& plan)
      : text_(text), size_(size), plan_(plan), rows_(text, plan.num_columns, plan.delimiter), failed_(Rows::kMost) {
    // A record has a byte for each column at least, and two if there is but one: lines of nothing take no memory.
    const std::size_t most = std::min(count_lines(text, size), size / std::max<std::size_t>(plan.num_columns, 2) + 1);
    for (const Reading& reading : plan.readings) {
      std::size_t& count = counts_[static_cast<std::size_t>(reading.kind)];
      steps_.push_back(
          {&reading, count++, reading.id.kind == IdKind::kBounds ? part_ids(reading.id) : std::vector<std::int64_t>{}});
      if (reading.kind == Kind::kBag) {
        BagColumn& bag = made_.bags.emplace_back();
        if (reading.length != 0) {
          bag.matrix = Array<std::int64_t>(most * reading.length);
        } else {
          bag.offsets.reserve(most + 1);
          bag.offsets.push_back(0);
        }
      }
      if (reading.kind == Kind::kText) made_.texts.emplace_back().offsets.push_back(0);
    }
    // In the order of the columns: a line's memory is walked through once, and its first bad field is the one told of.
    std::stable_sort(steps_.begin(), steps_.end(),
                     [](const Step& a, const Step& b) { return a.reading->column < b.reading->column; });
    made_.labels = Array<float>(most * count(Kind::kLabel));
    made_.numbers = Array<float>(most * count(Kind::kNumber));
    made_.weights = Array<float>(most * count(Kind::kWeight));
    made_.ids = Array<std::int64_t>(most * count(Kind::kId));
    made_.doubles = Array<double>(most * count(Kind::kDouble));
  }

  Delimited run() {
    LineScanner scanner(text_, size_, plan_.delimiter, plan_.has_quotes ? '"' : '\n');
    Line line;
    std::string what;
    for (std::size_t number = 0; scanner.next(line, rows_.room(), plan_.num_columns); ++number) {
      if (line.first == line.last) continue;
      ++made_.num_lines;
      if (!rows_.add(line, number, what)) describe(line, number, what, num_described_);
      if (rows_.is_full()) flush();
    }
    flush();
    return std::move(made_);
  }

 private:
  std::size_t count(Kind kind) const { return counts_[static_cast<std::size_t>(kind)]; }

  // Writes the rows. Where some fail, what they have written is written over by those that do not.
  void flush() {
    std::fill(failed_.begin(), failed_.end(), 0);
    has_failed_ = false;
    for (std::size_t step = 0; step < steps_.size(); ++step) read(step);
    if (has_failed_) {
      std::size_t num_described = 0;
      for (std::size_t row = 0; row < rows_.size(); ++row) {
        if (failed_[row] != 0) describe(rows_.line(row), rows_.number(row), reason(row), num_described);
      }
      rows_.keep(failed_);
      for (BagColumn& bag : made_.bags) {
        if (bag.offsets.empty()) continue;
        bag.offsets.resize(made_.num_records + 1);
        bag.values.resize(static_cast<std::size_t>(bag.offsets.back()));
      }
      for (TextColumn& text : made_.texts) {
        text.offsets.resize(made_.num_records + 1);
        text.bytes.resize(static_cast<std::size_t>(text.offsets.back()));
      }
      std::fill(failed_.begin(), failed_.end(), 0);
      for (std::size_t step = 0; step < steps_.size(); ++step) read(step);
    }
    for (std::size_t row = 0; plan_.has_begins && row < rows_.size(); ++row) {
      made_.begins.push_back(rows_.line(row).first - text_);
    }
    made_.num_records += rows_.size();
    rows_.clear();
    // Those without the right columns came before those with a bad field, wherever they stand.
    std::sort(bad_.begin(), bad_.end(), [](const BadLine& a, const BadLine& b) { return a.line < b.line; });
    for (BadLine& one : bad_) {
      if (made_.bad.size() < kMostDescribed) made_.bad.push_back(std::move(one));
    }
    bad_.clear();
    num_described_ = 0;
  }

  // A field with a text that is a gap is as empty as one of none.
  Field without_named_gap(Field field) const { return is_named_gap(field) ? Field{field.first, field.first} : field; }
  bool is_named_gap(Field field) const { return is_one_of(field, plan_.gaps); }

  // `read_field(row, field)` for every row; a row for which it is false has failed.
  template <class ReadField>
  void each(std::size_t step, ReadField read_field) {
    if (plan_.gaps.empty()) return each_found(step, read_field);
    each_found(step, [&](std::size_t row, Field field) { return read_field(row, without_named_gap(field)); });
  }

  template <class ReadField>
  void each_found(std::size_t step, const ReadField& read_field) {
    const std::size_t column = steps_[step].reading->column, size = rows_.size();
    for (std::size_t row = 0; row < size; ++row) {
      if (read_field(row, rows_.field(row, column))) continue;
      if (failed_[row] == 0) failed_[row] = step + 1;
      has_failed_ = true;
    }
  }

  void read(std::size_t step) {
    const Reading& reading = *steps_[step].reading;
    switch (reading.kind) {
      case Kind::kLabel: return read_floats(step, made_.labels, [](float&) { return false; });
      case Kind::kWeight: return read_floats(step, made_.weights, [](float&) { return false; });
      case Kind::kNumber: return read_numbers(step, reading);
      case Kind::kId: return read_ids(step, reading);
      case Kind::kBag: return read_bags(step, reading);
      case Kind::kDouble: return read_doubles(step, reading);
      case Kind::kText: return read_texts(step);
    }
  }

  template <class Gap>
  void read_floats(std::size_t step, Array<float>& matrix, Gap gap) {
    const std::size_t width = count(steps_[step].reading->kind);
    const bool rounds = steps_[step].reading->rounds;
    float* const out = matrix.data() + made_.num_records * width + steps_[step].place;
    each(step, [=](std::size_t row, Field field) {
      float& value = out[row * width];
      if (field.is_gap()) return gap(value);
      double wide = 0;
      const bool is_read = read_number(field, wide) == Number::kOk;
      value = static_cast<float>(wide);
      return is_read && std::isfinite(value) && (rounds || keeps_whole(wide, value));
    });
  }

  void read_numbers(std::size_t step, const Reading& reading) {
    const auto missing = static_cast<float>(reading.missing);
    const auto gap = [missing](float& value) {
      value = missing;
      return true;
    };
    if (!reading.has_log) return read_floats(step, made_.numbers, gap);
    const std::size_t width = count(Kind::kNumber);
    float* const out = made_.numbers.data() + made_.num_records * width + steps_[step].place;
    const Logarithm& log = Logarithm::shared();
    each(step, [=, &log](std::size_t row, Field field) {
      float& value = out[row * width];
      std::uint64_t size = 0;
      bool is_negative = false;
      if (read_short(field, size, is_negative)) {
        value = log.of_integer(size, is_negative);
        return true;
      }
      if (field.is_gap()) return gap(value);
      double wide = 0;
      const bool is_read = read_number(field, wide) == Number::kOk;
      value = Logarithm::of(wide);
      return is_read;
    });
  }

  void read_doubles(std::size_t step, const Reading& reading) {
    const std::size_t width = count(Kind::kDouble);
    double* const out = made_.doubles.data() + made_.num_records * width + steps_[step].place;
    each(step, [=, &reading](std::size_t row, Field field) {
      double& value = out[row * width];
      value = reading.missing;
      return field.is_gap() || (read_number(field, value) == Number::kOk && is_exact(field, value));
    });
  }

  void read_texts(std::size_t step) {
    TextColumn& text = made_.texts[steps_[step].place];
    each(step, [&](std::size_t, Field field) {
      text.bytes.insert(text.bytes.end(), field.first, field.last);
      text.bytes.push_back('\n');
      text.offsets.push_back(static_cast<std::int64_t>(text.bytes.size()));
      return true;
    });
  }

  void read_ids(std::size_t step, const Reading& reading) {
    const std::size_t width = count(Kind::kId);
    std::int64_t* const out = made_.ids.data() + made_.num_records * width + steps_[step].place;
    if (reading.id.kind == IdKind::kHash) {
      const std::uint64_t seed = reading.id.seed;
      return each(step, [=](std::size_t row, Field field) {
        out[row * width] = hash_text_with_room(seed, field.first, field.size());
        return true;
      });
    }
    each(step, [&](std::size_t row, Field field) {
      if (!field.is_gap()) return read_id(steps_[step], field, out[row * width]);
      out[row * width] = reading.id.gap;
      return reading.id.has_gap;
    });
  }

  static bool read_id(const Step& step, Field field, std::int64_t& id) {
    const IdRule& rule = step.reading->id;
    switch (rule.kind) {
      case IdKind::kHash: id = hash_text_with_room(rule.seed, field.first, field.size()); return true;
      case IdKind::kPlain: return read_plain_id(field, id) == Number::kOk;
      case IdKind::kBounds: break;
    }
    double number = 0;
    if (read_number(field, number) != Number::kOk) return false;
    const auto above = std::upper_bound(rule.bounds.begin(), rule.bounds.end(), number);
    id = step.part_ids[static_cast<std::size_t>(above - rule.bounds.begin())];
    return true;
  }

  void read_bags(std::size_t step, const Reading& reading) {
    BagColumn& bag = made_.bags[steps_[step].place];
    each(step, [&](std::size_t row, Field field) {
      std::vector<std::int64_t>& values = reading.length != 0 ? row_values_ : bag.values;
      if (reading.length != 0) values.clear();
      const bool is_read = read_items(steps_[step], field, values);
      if (reading.length == 0) {
        bag.offsets.push_back(static_cast<std::int64_t>(values.size()));
      } else {
        const std::size_t kept = std::min(values.size(), reading.length);
        std::int64_t* const out = bag.matrix.data() + (made_.num_records + row) * reading.length;
        std::fill(std::copy(values.end() - static_cast<std::ptrdiff_t>(kept), values.end(), out), out + reading.length,
                  reading.id.gap);
      }
      return is_read;
    });
  }

  // Moves the next item out of a field; false if there is none.
  static bool next_item(const Reading& reading, Field& field, Field& item) {
    if (field.is_gap()) return false;
    const void* const found =
        reading.has_separator ? std::memchr(field.first, reading.separator, field.size()) : nullptr;
    item = {field.first, found == nullptr ? field.last : static_cast<const char*>(found)};
    field.first = found == nullptr ? field.last : item.last + 1;
    return true;
  }

  // The values of a field; gaps among them are none.
  bool read_items(const Step& step, Field field, std::vector<std::int64_t>& values) const {
    bool is_read = true;
    for (Field item{}; next_item(*step.reading, field, item);) {
      if (item.is_gap() || is_named_gap(item)) continue;
      values.push_back(0);
      is_read = read_id(step, item, values.back()) && is_read;
    }
    return is_read;
  }

  std::string reason(std::size_t row) const {
    const Step& step = steps_[failed_[row] - 1];
    const Reading& reading = *step.reading;
    const bool is_id = reading.kind == Kind::kId || reading.kind == Kind::kBag;
    const std::string role = reading.kind == Kind::kLabel    ? "label"
                             : reading.kind == Kind::kWeight ? "weight"
                                                             : "column";
    const std::string name = role + " '" + reading.name + "'";
    const Field whole = without_named_gap(rows_.field(row, reading.column));
    if (whole.is_gap()) return name + " is empty" + (is_id ? " (its missing= says which id a gap is)" : "");
    const Field wrong = reading.kind == Kind::kBag ? wrong_item(step, whole) : whole;
    const std::string has = name + " has " + quoted(wrong.first, wrong.last) + ", which ";
    const bool is_plain = is_id && reading.id.kind == IdKind::kPlain;
    std::int64_t id = 0;
    double number = 0;
    const Number how = is_plain ? read_plain_id(wrong, id) : read_number(wrong, number);
    if (how == Number::kMalformed) return has + (is_plain ? "is no integer" : "is no number");
    if (is_plain) return has + "int64 cannot hold";
    if (reading.kind == Kind::kDouble) {
      return has + (how == Number::kOk ? "float64 would round (int64 holds it)" : "float64 cannot hold");
    }
    if (how != Number::kOk || !std::isfinite(static_cast<float>(number))) return has + "float32 cannot hold";
    return has + rounded(number, reading.kind == Kind::kNumber ? kRemedy : "scale it");
  }

  // The first value of a bag that cannot be read.
  Field wrong_item(const Step& step, Field field) const {
    Field item = field;
    std::int64_t id = 0;
    while (next_item(*step.reading, field, item)) {
      if (!item.is_gap() && !is_named_gap(item) && !read_id(step, item, id)) break;
    }
    return item;
  }

  // `num_described` of each of the two kinds are enough, since they come in the order of the lines.
  void describe(const Line& line, std::size_t number, const std::string& what, std::size_t& num_described) {
    if (num_described++ >= kMostDescribed) return;
    bad_.push_back({number, static_cast<std::size_t>(line.first - text_), what});
  }

  const char* const text_;
  const std::size_t size_;
  const Plan& plan_;
  Rows rows_;
  std::vector<Step> steps_;
  std::size_t counts_[7] = {};
  std::vector<std::size_t> failed_;  // of each row: the step, from 1, that could not read it; 0: none
  bool has_failed_ = false;
  std::vector<std::int64_t> row_values_;
  std::vector<BadLine> bad_;  // since the last flush
  std::size_t num_described_ = 0;
  Delimited made_;
};

}  // namespace

Delimited parse_delimited(const char* text, std::size_t size, const Plan& plan) {
  return Parser(text, size, plan).run();
}

}  // namespace fleet::data
