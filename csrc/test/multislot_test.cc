#include "data/multislot.h"

#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "data/number.h"
#include "data/take.h"

namespace {

const std::vector<fleet::data::Slot> kSlots{{"label", fleet::data::SlotType::kFloat, 2},
                                            {"ids", fleet::data::SlotType::kInt, 0}};

fleet::data::Parsed parse(const std::string& text, bool is_last = true, fleet::data::Tags tags = {false, false}) {
  // A copy without a byte to spare, so that a sanitizer sees what is read behind the end.
  const std::vector<char> exact(text.begin(), text.end());
  return fleet::data::parse_multislot(exact.data(), exact.size(), is_last, kSlots, tags);
}

std::string problem(const std::string& text) {
  const fleet::data::Parsed parsed = parse(text);
  CHECK(parsed.problem.has_value());
  return std::to_string(parsed.problem->line) + ": " + parsed.problem->what;
}

double number(const std::string& text) {
  double value = 0;
  CHECK(fleet::data::read_double(text.data(), text.data() + text.size(), value) == fleet::data::Number::kOk);
  return value;
}

}  // namespace

TEST(multislot_reads_columns) {
  const fleet::data::Parsed parsed = parse("2 0.5 -1e3 3 1 18446744073709551615 -7\n\n 2\t1 2  1 9 \r\n2 3 4 1 5");
  CHECK(!parsed.problem);
  CHECK(parsed.num_records == 3 && parsed.num_lines == 4);
  CHECK((parsed.columns[0].floats == std::vector<float>{0.5f, -1000.0f, 1, 2, 3, 4}));
  CHECK((parsed.columns[1].ints == std::vector<std::int64_t>{1, -1, -7, 9, 5}));
  CHECK((parsed.columns[1].offsets == std::vector<std::int64_t>{0, 3, 4, 5}));
}

TEST(multislot_leaves_the_unfinished_line) {
  const fleet::data::Parsed parsed = parse("2 1 2 1 9\n2 1 2 1 1", false);
  CHECK(parsed.num_records == 1 && parsed.consumed == 10);
}

TEST(multislot_reads_tags) {
  const fleet::data::Parsed parsed =
      parse("1 a 1 some 2 1 2 1 9\n1 b 1 more 2 1 2 1 9\n1 a 1 text 2 1 2 1 9\n", true, {true, true});
  CHECK(!parsed.problem && parsed.num_records == 3);
  CHECK(parsed.ids[0] == parsed.ids[2] && parsed.ids[0] != parsed.ids[1]);
  CHECK(parse("2 1 2 1 9\n", true, {true, false}).problem);
}

TEST(multislot_names_what_is_wrong) {
  CHECK(problem("2 1 2 1 9\n2 1 2 0\n") == "1: slot 'ids' has no values");
  CHECK(problem("3 1 2 3 1 9\n") == "0: slot 'label' has 3 values where its shape has 2");
  CHECK(problem("2 1 2\n") == "0: slot 'ids' is missing");
  CHECK(problem("2 1 2 9223372036854775807 1\n") ==
        "0: slot 'ids' should have 9223372036854775807 values and the line ends after 1");
  CHECK(problem("2 1 2 18446744073709551615 1\n") ==
        "0: slot 'ids' begins with '18446744073709551615', which is no number of values");
  CHECK(problem("2 1 2 1 9 9\n") == "0: the line goes on with '9' behind its last slot 'ids'");
  CHECK(problem("2 1 2 1 1.5\n") == "0: slot 'ids' has '1.5', which is no integer");
  CHECK(problem("2 nan 2 1 1\n") == "0: slot 'label' has 'nan', which is no number");
  CHECK(problem("2 1e39 2 1 1\n") == "0: slot 'label' has '1e39', which float32 cannot hold");
  CHECK(problem("2 1 2 1 18446744073709551616\n") ==
        "0: slot 'ids' has '18446744073709551616', which int64 cannot hold");
  CHECK(problem(std::string("2 \0\x1b 2 1 1\n", 11)) == "0: slot 'label' has '\?\?', which is no number");
}

// Every text of these few characters, and every beginning of a good one: an answer, whatever it is.
TEST(multislot_survives_any_text) {
  const std::string letters = "12 .-e\n\xff";
  for (std::size_t code = 0; code < 8u * 8 * 8 * 8 * 8; ++code) {
    std::string text = "2 1 2 ";
    for (std::size_t rest = code, i = 0; i < 5; ++i, rest /= 8) text += letters[rest % 8];
    for (const bool is_last : {false, true}) CHECK(parse(text, is_last).consumed <= text.size());
  }
  const std::string good = "2 0.25 -1e-3 2 1 18446744073709551615\n";
  for (std::size_t size = 0; size <= good.size(); ++size) parse(good.substr(0, size));
}

TEST(multislot_numbers_are_the_nearest) {
  for (const char* text :
       {"0.1", "-0", "1e22", "1e23", "123456789012345678901234567890", "4.9e-324", "2.5e-5", "1e-400", ".5", "5.",
        "+1.5", "9007199254740993", "0.000000000000000000000000000001", "1E+2"}) {
    CHECK(number(text) == std::strtod(text, nullptr));
  }
  double value = 0;
  for (const char* text : {"", "-", ".", "e5", "1e", "1e+", "1.2.3", "0x10", "inf", "1f", "--1"}) {
    CHECK(fleet::data::read_double(text, text + std::strlen(text), value) == fleet::data::Number::kMalformed);
  }
  for (const char* text : {"1e999", "-1e400", "1e99999999999999999999"}) {
    CHECK(fleet::data::read_double(text, text + std::strlen(text), value) == fleet::data::Number::kOutOfRange);
  }
  std::int64_t whole = 0;
  const std::string least = "-9223372036854775808", below = "-9223372036854775809";
  CHECK(fleet::data::read_int64(least.data(), least.data() + least.size(), whole) == fleet::data::Number::kOk);
  CHECK(whole == INT64_MIN);
  CHECK(fleet::data::read_int64(below.data(), below.data() + below.size(), whole) == fleet::data::Number::kOutOfRange);
}

TEST(take_ragged_takes_records_and_refuses_others) {
  const std::vector<std::int64_t> values{1, 2, 3, 4, 5, 6}, offsets{0, 2, 2, 6};
  const auto* const data = reinterpret_cast<const std::byte*>(values.data());
  const auto take = [&](const std::vector<std::int64_t>& index, const std::vector<std::int64_t>& ends,
                        fleet::data::Taken& taken) {
    return fleet::data::take_ragged(data, values.size(), 8, ends.data(), ends.size() - 1, index.data(), index.size(),
                                    taken);
  };
  fleet::data::Taken taken;
  CHECK(take({2, 1, 0, 0}, offsets, taken));
  const std::vector<std::int64_t> wanted{3, 4, 5, 6, 1, 2, 1, 2};
  CHECK(taken.offsets[4] == 8 && std::memcmp(taken.values.data(), wanted.data(), 64) == 0);
  CHECK(!take({3}, offsets, taken) && !take({-1}, offsets, taken));
  CHECK(!take({0}, {0, 7}, taken) && !take({0}, {-1, 2}, taken) && !take({0}, {3, 2}, taken));
  CHECK(take({}, offsets, taken) && taken.offsets.size() == 1);
}
