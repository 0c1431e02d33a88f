#include "data/delimited.h"

#include <cmath>
#include <string>
#include <vector>

#include "check.h"
#include "data/hash_text.h"
#include "data/lines.h"

namespace {

using Kind = fleet::data::Reading::Kind;

fleet::data::Plan plan(char delimiter = '\t', bool has_quotes = false) {
  fleet::data::Plan made{4, delimiter, has_quotes, {}};
  made.readings.push_back({Kind::kLabel, 0, "click"});
  made.readings.push_back({Kind::kNumber, 1, "price"});
  made.readings.back().missing = -1;
  made.readings.push_back({Kind::kId, 2, "user"});
  made.readings.push_back({Kind::kBag, 3, "tags"});
  fleet::data::Reading& tags = made.readings.back();
  tags.id.kind = fleet::data::IdKind::kPlain;
  tags.has_separator = true;
  tags.separator = '|';
  return made;
}

fleet::data::Delimited parse(const std::string& text, const fleet::data::Plan& how = plan()) {
  // A copy without a byte to spare, so that a sanitizer sees what is read around it.
  const std::vector<char> exact(text.begin(), text.end());
  return fleet::data::parse_delimited(exact.data(), exact.size(), how);
}

std::string wrong(const std::string& line, const fleet::data::Plan& how = plan()) {
  const fleet::data::Delimited made = parse(line, how);
  CHECK(made.num_lines == 1 && made.num_records == 0 && made.bad.size() == 1);
  return made.bad[0].what;
}

std::int64_t hash(const std::string& text) { return fleet::data::hash_text(0, text.data(), text.size()); }

}  // namespace

TEST(delimited_reads_columns) {
  const fleet::data::Delimited made = parse("1\t2.5\tanna\t7|8||9\r\n\n0\t\t\t\n1\t-3\tb\t-9223372036854775808");
  CHECK(made.num_lines == 3 && made.num_records == 3 && made.bad.empty());
  CHECK(made.labels[0] == 1 && made.labels[1] == 0 && made.labels[2] == 1);
  CHECK(made.numbers[0] == 2.5f && made.numbers[1] == -1 && made.numbers[2] == -3);
  CHECK(made.ids[0] == hash("anna") && made.ids[1] == hash("") && made.ids[2] == hash("b"));
  CHECK((made.bags[0].values == std::vector<std::int64_t>{7, 8, 9, INT64_MIN}));
  CHECK((made.bags[0].offsets == std::vector<std::int64_t>{0, 3, 3, 4}));
}

TEST(delimited_leaves_bad_lines_out) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += i % 3 == 1 ? "1\tx\ta\t5|6\n" : i % 3 == 2 ? "0\t1\n" : "0\t7\tb\t1|2|3\n";
  const fleet::data::Delimited made = parse(text);
  CHECK(made.num_lines == 200 && made.num_records == 67 && made.bad.size() == 8);
  CHECK(made.bad[0].line == 1 && made.bad[0].begin == 12 &&
        made.bad[0].what == "column 'price' has 'x', which is no number");
  CHECK(made.bad[1].line == 2 && made.bad[1].what == "2 columns instead of 4");
  CHECK(made.bags[0].values.size() == 3 * 67 && made.bags[0].offsets.back() == 3 * 67);
  for (std::size_t i = 0; i < 67; ++i) CHECK(made.numbers[i] == 7 && made.ids[i] == hash("b"));
}

TEST(delimited_reads_texts_that_are_gaps) {
  fleet::data::Plan how = plan();
  how.gaps = {"NA", "-"};
  const fleet::data::Delimited made = parse("1\tNA\t-\t7|NA|9\n0\t3\tNAN\tNA\n", how);
  CHECK(made.num_records == 2 && made.numbers[0] == -1 && made.numbers[1] == 3);
  CHECK(made.ids[0] == hash("") && made.ids[1] == hash("NAN"));
  CHECK((made.bags[0].values == std::vector<std::int64_t>{7, 9}));
  CHECK(wrong("NA\t1\ta\t1", how) == "label 'click' is empty");
}

TEST(delimited_refuses_gaps_of_ids_without_one) {
  fleet::data::Plan how = plan();
  how.readings[2].id = {fleet::data::IdKind::kPlain, 0, {}, 0, false};
  CHECK(wrong("1\t1\t\t1", how) == "column 'user' is empty (its missing= says which id a gap is)");
}

TEST(delimited_keeps_whole_numbers) {
  fleet::data::Plan how = plan();
  how.readings[1].rounds = false;
  CHECK(parse("1\t0.1\ta\t1\n1\t16777216\ta\t1\n1\t1e30\ta\t1\n1\t2147483648\ta\t1", how).num_records == 4);
  CHECK(wrong("1\t1700000003\ta\t1", how) ==
        "column 'price' has '1700000003', which float32 would make 1700000000 (declare it with dtype='float64' or "
        "'int64', or 'float32' to have it rounded)");
  CHECK(wrong("1\t-1.700000003e9\ta\t1", how).find("float32 would make -1700000000") != std::string::npos);
  CHECK(parse("1\t1700000003\ta\t1").num_records == 1);
  how.readings[1].kind = Kind::kDouble;
  const fleet::data::Delimited made = parse("1\t1700000003.25\ta\t1\n1\t\ta\t1", how);
  CHECK(made.doubles[0] == 1700000003.25 && made.doubles[1] == -1);
  CHECK(wrong("1\t9007199254740993\ta\t1", how) ==
        "column 'price' has '9007199254740993', which float64 would round (int64 holds it)");
  CHECK(wrong("1\t1e999\ta\t1", how) == "column 'price' has '1e999', which float64 cannot hold");
}

TEST(delimited_hands_texts_on_as_they_stand) {
  fleet::data::Plan how = plan(',', true);
  how.readings.push_back({Kind::kText, 2, "user"});
  how.has_begins = true;
  const fleet::data::Delimited made = parse("1,2,\"a,\"\"b\",1\nx,1,lost,1\n\n0,3,,1", how);
  const std::string bytes(made.texts[0].bytes.begin(), made.texts[0].bytes.end());
  CHECK(made.num_records == 2 && bytes == "a,\"b\n\n");
  CHECK((made.texts[0].offsets == std::vector<std::int64_t>{0, 5, 6}));
  CHECK((made.begins == std::vector<std::int64_t>{0, 26}));
}

TEST(delimited_names_what_is_wrong) {
  CHECK(wrong("\t1\ta\t1") == "label 'click' is empty");
  CHECK(wrong("nan\t1\ta\t1") == "label 'click' has 'nan', which is no number");
  CHECK(wrong("1\t1e39\ta\t1") == "column 'price' has '1e39', which float32 cannot hold");
  CHECK(wrong("1\t1e999\ta\t1") == "column 'price' has '1e999', which float32 cannot hold");
  CHECK(wrong("1\t1\ta\t4|1.5") == "column 'tags' has '1.5', which is no integer");
  CHECK(wrong("1\t1\ta\t4|9223372036854775808|x") ==
        "column 'tags' has '9223372036854775808', which int64 cannot hold");
  CHECK(wrong("1\t1\ta\t1\t") == "5 columns instead of 4");
  const fleet::data::Plan quotes = plan(',', true);
  CHECK(wrong("1,1,\"a,1", quotes) == "a quote that its line does not close");
  CHECK(wrong("1,1,\"a\"b,1", quotes) == "text behind a closing quote");
}

TEST(delimited_reads_quotes) {
  const fleet::data::Plan quotes = plan(',', true);
  const fleet::data::Delimited made = parse("\"1\",\"\",\"a,\"\"b\"\"\",\"5|6\"\n0,2,5\" disk,\n", quotes);
  CHECK(made.num_records == 2 && made.labels[0] == 1 && made.numbers[0] == -1);
  CHECK(made.ids[0] == hash("a,\"b\"") && made.ids[1] == hash("5\" disk"));
  CHECK((made.bags[0].values == std::vector<std::int64_t>{5, 6}));
}

TEST(delimited_fills_matrices_and_finds_parts) {
  fleet::data::Plan how{2, ',', false, {}};
  how.readings.push_back({Kind::kBag, 0, "last"});
  how.readings.back().id = {fleet::data::IdKind::kPlain, 0, {}, -5};
  how.readings.back().has_separator = true;
  how.readings.back().separator = ' ';
  how.readings.back().length = 2;
  how.readings.push_back({Kind::kId, 1, "age"});
  how.readings.back().id = {fleet::data::IdKind::kBounds, 0, {18, 65}, 42};
  const fleet::data::Delimited made = parse("1 2 3,17.9\n4,18\n,65\n, \n5 x,3\n7 8,\n", how);
  CHECK(made.num_records == 4 && made.num_lines == 6);
  const std::vector<std::int64_t> wanted{2, 3, 4, -5, -5, -5, 7, 8};
  for (std::size_t i = 0; i < 8; ++i) CHECK(made.bags[0].matrix[i] == wanted[i]);
  CHECK(made.ids[0] == hash("0") && made.ids[1] == hash("1") && made.ids[2] == hash("2") && made.ids[3] == 42);
}

TEST(delimited_has_an_answer_to_any_text) {
  const std::string letters = "1\t\n|\r,\"x";
  for (const fleet::data::Plan& how : {plan(), plan(','), plan(',', true)}) {
    for (std::size_t code = 0; code < 8u * 8 * 8 * 8 * 8; ++code) {
      std::string text = code % 2 == 0 ? "1,2,3,4\n" : "";
      for (std::size_t rest = code, i = 0; i < 5; ++i, rest /= 8) text += letters[rest % 8];
      const fleet::data::Delimited made = parse(text, how);
      CHECK(made.num_records <= made.num_lines && made.num_lines <= fleet::data::count_lines(text.data(), text.size()));
    }
  }
}

TEST(lines_are_found_the_same_with_and_without_vectors) {
  std::uint64_t state = 1;
  for (int turn = 0; turn < 2000; ++turn) {
    char text[64];
    for (char& c : text) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      c = static_cast<char>(turn % 2 == 0 ? state >> 56 : "\t\n\",\x89\x8a"[(state >> 60) % 6]);
    }
    CHECK(fleet::data::find(text, '\t', '\n', '"') == fleet::data::find_plainly(text, '\t', '\n', '"'));
    std::uint64_t wanted = 0;
    for (int i = 0; i < 64; ++i) wanted |= std::uint64_t{text[i] == '\t' || text[i] == '\n' || text[i] == '"'} << i;
    CHECK(fleet::data::find(text, '\t', '\n', '"') == wanted);
  }
}

TEST(text_hash_is_the_same_with_and_without_room) {
  const std::string text = "01234567abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (std::size_t size = 0; size + 8 <= text.size(); ++size) {
    const std::vector<char> exact(text.begin() + 8, text.begin() + 8 + static_cast<std::ptrdiff_t>(size));
    CHECK(fleet::data::hash_text(7, exact.data(), size) == fleet::data::hash_text_with_room(7, text.data() + 8, size));
  }
}
