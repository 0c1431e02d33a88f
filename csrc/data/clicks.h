// Click logs that are made up, with Criteo's columns: 13 counts with gaps, 26 categories whose ids follow a Zipf law,
// and a label drawn from a probability that is known, so that it is known how well a model can do at best.
//
// Sample i is a function of the settings and i alone, and the same bits on every machine: random numbers are hashes of
// (seed, i, column), and logarithms and exponentials are those of rule/elementary.h.
//
// The probability is the sigmoid of a sum: of the numbers' logarithms, weighted; of a hidden weight for every id; of
// products of hidden factors for a few pairs of slots; and of a constant, chosen so that `click_rate` of samples are
// clicks. Weights and factors shrink for rare ids, which nobody could learn.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fleet::data {

constexpr std::size_t kClickNumbers = 13;
constexpr std::size_t kClickSlots = 26;
constexpr std::size_t kClickColumns = kClickNumbers + kClickSlots;

struct ClickSettings {
  std::uint64_t seed = 0;
  std::array<std::uint32_t, kClickSlots> vocabularies{};  // ids of each slot, at least 1
  std::array<double, kClickColumns> gaps{};               // share of gaps of the numbers, then of the slots; 0 to 1
  double exponent = 1.1;                                  // of Zipf's law, above 0
  double click_rate = 0.25;                               // between 0 and 1
  double signal = 1;                                      // how much the columns tell: the sum is scaled by it
};

struct Click {
  static constexpr std::uint32_t kGap = 0xffffffffu;

  std::array<std::int32_t, kClickNumbers> numbers;
  std::array<bool, kClickNumbers> is_gap;        // the number is 0 then
  std::array<std::uint32_t, kClickSlots> ranks;  // 0 is the most frequent id; or kGap
  double luck;                                   // in [0, 1): it is a click if this is below the probability
  double probability;                            // that it is a click
  bool is_click;
};

// The text of an id, eight hexadecimal digits, as the number that they write: no two ranks of a slot share one.
std::uint32_t click_code(std::size_t slot, std::uint32_t rank);

// Samples by column, as Arrow keeps them in memory.
struct ClickColumns {
  struct Column {
    std::vector<std::uint8_t> valid;    // a bit for each sample, lowest first: 0 is a gap
    std::vector<std::int32_t> numbers;  // of a number; 0 at a gap
    std::vector<std::int32_t> offsets;  // of a category: where its text begins, and where the last one ends
    std::vector<std::uint8_t> text;
  };
  std::vector<std::int32_t> label;
  std::array<Column, kClickColumns> columns;
};

class Clicks {
 public:
  explicit Clicks(const ClickSettings& settings);

  Click sample(std::uint64_t number) const;

  // Of samples first .. first + count - 1, each row after row: label [count], numbers with the logarithm taken
  // [count, 13], ids as readers make them of the text [count, 26].
  void batch(std::uint64_t first, std::size_t count, float* label, float* dense, std::int64_t* ids) const;

  // The true probability and the label of each.
  void probabilities(std::uint64_t first, std::size_t count, double* probability, float* label) const;

  // The same samples as lines of text: label, numbers and categories, tabs between them, nothing for a gap.
  std::string text(std::uint64_t first, std::size_t count) const;

  // The same samples as columns. Requires count <= 2^28: offsets are 32 bits wide.
  ClickColumns columns(std::uint64_t first, std::size_t count) const;

 private:
  static constexpr std::size_t kCells = 1024;
  static constexpr std::int32_t kFewest = -8, kMost = 4096;  // the numbers whose logarithm is in a table

  // The inverse of a distribution's cumulative function, at kCells + 1 even steps; straight lines between them.
  using Quantiles = std::array<double, kCells + 1>;

  double sum_of(const Click& click) const;
  double probability_of(double sum) const;
  void draw(std::uint64_t stream, std::uint64_t number, Click& click) const;
  double log_of(std::int32_t number) const;
  float dense_of(std::int32_t number) const;

  ClickSettings settings_;
  std::uint64_t samples_, weights_;  // where their random numbers begin
  double scale_ = 0, constant_ = 0;  // of the sum
  std::array<std::uint32_t, kClickColumns> gap_below_{};
  std::array<Quantiles, kClickNumbers> counts_{};
  std::vector<Quantiles> zipf_;
  std::vector<double> logs_;
  std::vector<float> dense_;
  std::array<std::uint64_t, kClickSlots> slot_seeds_{};
  std::array<std::int64_t, kClickSlots> gap_ids_{};
};

}  // namespace fleet::data
