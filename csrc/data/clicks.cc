#include "data/clicks.h"

#include <algorithm>
#include <cmath>

#include "data/click_text.h"
#include "data/hash_text.h"
#include "init/quantile.h"
#include "keys/hash.h"
#include "rule/elementary.h"

namespace fleet::data {

namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15u;

std::uint64_t mixed(std::uint64_t bits) { return mix64(static_cast<std::int64_t>(bits)); }

// A count is e^(middle + spread * normal) - 1 + least, rounded down; how much its logarithm tells, per `spread`.
struct Count {
  double middle, spread, weight;
  std::int32_t least;
};

constexpr std::array<Count, kClickNumbers> kCounts = {{
    {1.2, 1.0, 0.40, 0},
    {1.8, 1.5, -0.25, -2},
    {1.9, 1.2, 0.20, 0},
    {1.7, 0.9, 0.15, 0},
    {7.8, 1.6, -0.45, 0},
    {3.5, 1.4, -0.20, 0},
    {1.6, 1.2, 0.35, 0},
    {2.1, 1.1, 0.10, 0},
    {3.7, 1.3, -0.15, 0},
    {0.6, 0.6, 0.25, 0},
    {1.0, 0.8, 0.30, 0},
    {0.5, 0.7, 0.00, 0},
    {1.8, 1.0, 0.15, 0},
}};

// The numbers of which the square tells something, and those of which the product does.
constexpr std::size_t kSquare = 5, kLeft = 2, kRight = 6;
constexpr double kSquareWeight = 0.15, kProductWeight = 0.15;

// How much the ids of a slot tell. Some tell nothing, as in life.
constexpr std::array<double, kClickSlots> kTells = {0.50, 0.45, 0.60, 0.50, 0.30, 0.35, 0.50, 0.20, 0.25,
                                                    0.60, 0.55, 0.50, 0.40, 0.45, 0.45, 0.60, 0.40, 0.30,
                                                    0.20, 0.25, 0.00, 0.15, 0.30, 0.00, 0.20, 0.22};

// Pairs of slots whose ids tell something together.
struct Pair {
  std::size_t left, right;
  double tells;
};
constexpr std::array<Pair, 4> kPairs = {{{5, 13, 0.22}, {8, 16, 0.22}, {19, 22, 0.22}, {4, 24, 0.22}}};

constexpr double kFrequent = 20, kFrequentTogether = 10;  // a weight is half of what it was at such a rank
constexpr double kSumSpread = 1.5;                        // standard deviation of the sum, for a signal of 1
constexpr double kMostSum = 15;
constexpr std::size_t kCalibration = 8192;  // samples that choose scale and constant

// 16 of the bits as a number of mean 0 and variance 1, evenly spread.
double centred(std::uint64_t bits) {
  return (static_cast<double>(bits & 0xffffu) + 0.5 - 32768) * (1.7320508075688772 / 32768);
}

double clamped(double x, double most) { return std::min(std::max(x, -most), most); }

}  // namespace

std::uint32_t click_code(std::size_t slot, std::uint32_t rank) {
  std::uint32_t code = rank + static_cast<std::uint32_t>(mixed(slot + 1));  // each step can be undone
  code = (code ^ (code >> 16)) * 0x7feb352du;
  code = (code ^ (code >> 15)) * 0x846ca68bu;
  return code ^ (code >> 16);
}

Clicks::Clicks(const ClickSettings& settings)
    : settings_(settings),
      samples_(mixed(settings.seed * 2 + 1)),
      weights_(mixed(settings.seed * 2 + 0x5851f42d4c957f2du)),
      zipf_(kClickSlots) {
  for (std::size_t c = 0; c < kClickColumns; ++c) {
    gap_below_[c] = static_cast<std::uint32_t>(settings.gaps[c] * (1 << 22));
  }
  for (std::size_t j = 0; j < kClickNumbers; ++j) {
    for (std::size_t i = 0; i <= kCells; ++i) {
      const double place = std::min(std::max(static_cast<double>(i), 0.25), kCells - 0.25) / kCells;
      counts_[j][i] = exponential(kCounts[j].middle + kCounts[j].spread * normal_quantile(place)) - 1;
    }
  }
  // Zipf's law with numbers between the ranks too: density x^-s from 1 to V + 1, of which the whole part is taken.
  const double s = settings.exponent;
  for (std::size_t slot = 0; slot < kClickSlots; ++slot) {
    const double end = natural_log(static_cast<double>(settings.vocabularies[slot]) + 1);
    const bool is_log = std::fabs(s - 1) < 1e-9;
    const double last = is_log ? end : exponential((1 - s) * end) - 1;
    for (std::size_t i = 0; i <= kCells; ++i) {
      const double part = static_cast<double>(i) / kCells * last;
      zipf_[slot][i] = is_log ? exponential(part) : exponential(natural_log(1 + part) / (1 - s));
    }
  }
  for (std::int32_t number = kFewest; number < kMost; ++number) {
    logs_.push_back(natural_log(1 + std::fabs(static_cast<double>(number))) * (number < 0 ? -1 : 1));
    dense_.push_back(dense_number(number));
  }
  for (std::size_t slot = 0; slot < kClickSlots; ++slot) {
    slot_seeds_[slot] = click_slot_seed(slot);
    gap_ids_[slot] = hash_text(slot_seeds_[slot], "", 0);
  }

  std::vector<double> sums(kCalibration);
  Click click;
  double mean = 0, square = 0;
  for (std::size_t i = 0; i < kCalibration; ++i) {
    draw(weights_, i, click);
    sums[i] = sum_of(click);
    mean += sums[i] / kCalibration;
  }
  for (const double sum : sums) square += (sum - mean) * (sum - mean) / kCalibration;
  scale_ = square > 0 ? kSumSpread * settings.signal / std::sqrt(square) : 0;
  double low = -kMostSum * 4, high = kMostSum * 4;
  for (int step = 0; step < 60; ++step) {
    constant_ = (low + high) / 2;
    double rate = 0;
    for (const double sum : sums) rate += probability_of(sum) / kCalibration;
    (rate < settings.click_rate ? low : high) = constant_;
  }
}

double Clicks::log_of(std::int32_t number) const {
  if (number < kMost) return logs_[static_cast<std::size_t>(number - kFewest)];
  return natural_log(1 + static_cast<double>(number));
}

float Clicks::dense_of(std::int32_t number) const {
  return number < kMost ? dense_[static_cast<std::size_t>(number - kFewest)] : dense_number(number);
}

// Each column has 64 random bits: ten choose the cell, 32 the place in it, 22 whether there is a gap.
void Clicks::draw(std::uint64_t stream, std::uint64_t number, Click& click) const {
  constexpr double kStep = 1.0 / 4294967296.0;
  std::uint64_t state = mixed(stream ^ number);
  const auto within = [](const Quantiles& quantiles, std::uint64_t bits) {
    const double* const cell = quantiles.data() + (bits >> 54);
    return cell[0] + static_cast<double>((bits >> 22) & 0xffffffffu) * kStep * (cell[1] - cell[0]);
  };
  for (std::size_t j = 0; j < kClickNumbers; ++j, state += kGolden) {
    const std::uint64_t bits = mixed(state);
    click.is_gap[j] = (bits & 0x3fffffu) < gap_below_[j];
    const double found = std::max(within(counts_[j], bits), 0.0);
    click.numbers[j] = click.is_gap[j] ? 0 : static_cast<std::int32_t>(found) + kCounts[j].least;
  }
  for (std::size_t slot = 0; slot < kClickSlots; ++slot, state += kGolden) {
    const std::uint64_t bits = mixed(state);
    const auto rank = static_cast<std::uint32_t>(within(zipf_[slot], bits)) - 1;
    const bool is_gap = (bits & 0x3fffffu) < gap_below_[kClickNumbers + slot];
    click.ranks[slot] = is_gap ? Click::kGap : std::min(rank, settings_.vocabularies[slot] - 1);
  }
  click.is_click = false;
  click.luck = static_cast<double>(mixed(state) >> 11) / 9007199254740992.0;
}

double Clicks::sum_of(const Click& click) const {
  std::array<double, kClickNumbers> z;
  double sum = 0;
  for (std::size_t j = 0; j < kClickNumbers; ++j) {
    z[j] = clamped((log_of(click.numbers[j]) - kCounts[j].middle) / kCounts[j].spread, 2.5);
    sum += kCounts[j].weight * z[j];
  }
  sum += kSquareWeight * z[kSquare] * z[kSquare] + kProductWeight * z[kLeft] * z[kRight];
  const auto hidden = [this, &click](std::size_t slot, std::uint64_t kind) {
    return mixed(weights_ ^ (kind << 56 | static_cast<std::uint64_t>(slot) << 40 | click.ranks[slot]));
  };
  const auto shrunk = [&click](std::size_t slot, double frequent) {
    return click.ranks[slot] == Click::kGap ? 1 : frequent / (frequent + click.ranks[slot]);
  };
  for (std::size_t slot = 0; slot < kClickSlots; ++slot) {
    sum += kTells[slot] * shrunk(slot, kFrequent) * centred(hidden(slot, 1));
  }
  for (const Pair& pair : kPairs) {
    const std::uint64_t left = hidden(pair.left, 2), right = hidden(pair.right, 2);
    double product = 0;
    for (int f = 0; f < 64; f += 16) product += centred(left >> f) * centred(right >> f);
    sum += pair.tells * 0.5 * shrunk(pair.left, kFrequentTogether) * shrunk(pair.right, kFrequentTogether) * product;
  }
  return sum;
}

double Clicks::probability_of(double sum) const {
  return 1 / (1 + exponential(-clamped(scale_ * sum + constant_, kMostSum)));
}

Click Clicks::sample(std::uint64_t number) const {
  Click click;
  draw(samples_, number, click);
  click.probability = probability_of(sum_of(click));
  click.is_click = click.luck < click.probability;
  return click;
}

void Clicks::batch(std::uint64_t first, std::size_t count, float* label, float* dense, std::int64_t* ids) const {
  for (std::size_t i = 0; i < count; ++i) {
    const Click click = sample(first + i);
    label[i] = click.is_click ? 1.0f : 0.0f;
    for (const std::int32_t number : click.numbers) *dense++ = dense_of(number);
    for (std::size_t slot = 0; slot < kClickSlots; ++slot) {
      const std::uint32_t rank = click.ranks[slot];
      *ids++ = rank == Click::kGap ? gap_ids_[slot] : code_id(slot_seeds_[slot], click_code(slot, rank));
    }
  }
}

void Clicks::probabilities(std::uint64_t first, std::size_t count, double* probability, float* label) const {
  for (std::size_t i = 0; i < count; ++i) {
    const Click click = sample(first + i);
    probability[i] = click.probability;
    label[i] = click.is_click ? 1.0f : 0.0f;
  }
}

}  // namespace fleet::data
