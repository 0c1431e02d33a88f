#include "plane/holdings.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <limits>

#include "keys/scratch.h"
#include "table/finite.h"
#include "threads/team.h"
#include "trace/ring.h"

namespace fleet::plane {

namespace {

// Sums of magnitudes up to this fit a float32, however they are rounded on the way.
constexpr std::size_t kRows = 8192;  // that are encoded at a time
constexpr double kSafe = std::numeric_limits<float>::max() / 16.0;

// Rates that float32 cannot tell apart are one: workers may compute them on different machines.
bool agrees(double& known, double lr) {
  if (known < 0) known = lr;
  return std::fabs(known - lr) <= 1e-6 * std::max(known, lr);
}

}  // namespace

Holdings::Holdings(std::vector<std::shared_ptr<Table>> tables, Reader reader, std::shared_ptr<Dense> dense,
                   bool skip_nonfinite)
    : tables_(std::move(tables)),
      reader_(std::move(reader)),
      dense_(std::move(dense)),
      skip_nonfinite_(skip_nonfinite) {}

bool Holdings::is_safe(const std::vector<const Gradients*>& step) const {
  std::vector<double> table_sums(tables_.size(), 0.0);
  std::vector<double> dense_sums(reader_.job().groups.size(), 0.0);
  std::vector<double> table_rates(table_sums.size(), -1.0), dense_rates(dense_sums.size(), -1.0);
  for (const Gradients* one : step) {
    one->decode();
    for (const Gradients::Part& part : one->parts) {
      if (!agrees(table_rates[part.table], part.lr)) return false;
      if (part.shows != nullptr && !(all_finite(part.shows, part.n) && all_finite(part.clicks, part.n))) return false;
      if (skip_nonfinite_) continue;
      table_sums[part.table] += static_cast<double>(part.n) * static_cast<double>(part.grads.largest());
    }
    for (const Gradients::Group& group : one->dense) {
      if (!agrees(dense_rates[group.group], group.lr)) return false;
      if (skip_nonfinite_) continue;
      dense_sums[group.group] += group.grads.largest();
    }
  }
  try {
    for (std::size_t table = 0; table < tables_.size(); ++table) {
      if (table_rates[table] >= 0) tables_[table]->refuse_if_full();
    }
  } catch (const std::exception&) {  // a full disk
    return false;
  }
  const auto fits = [](double sum) { return sum <= kSafe; };
  return std::all_of(table_sums.begin(), table_sums.end(), fits) &&
         std::all_of(dense_sums.begin(), dense_sums.end(), fits);
}

std::size_t Holdings::apply(const std::vector<const Gradients*>& step, const How& how) const {
  std::vector<bool> touched(tables_.size(), false);
  for (const Gradients* one : step) {
    for (const Gradients::Part& part : one->parts) touched[part.table] = true;
  }
  std::size_t skipped = 0;
  for (std::size_t table = 0; table < tables_.size(); ++table) {
    if (!touched[table]) continue;
    skipped += apply_table(table, step, how);
  }
  if (dense_ == nullptr) return skipped;
  const std::vector<Dense::Update> updates = dense_updates(step, how.factor);
  if (updates.empty()) return skipped;
  const trace::Scope span(trace::What::kDense, updates.size());
  return skipped + dense_->apply(updates, how.num_pushes, skip_nonfinite_);
}

std::vector<Dense::Update> Holdings::dense_updates(const std::vector<const Gradients*>& step, double factor) const {
  std::vector<Dense::Update> updates;
  const std::vector<Reader::Group>& groups = reader_.job().groups;
  for (std::uint32_t group = 0; group < groups.size(); ++group) {
    Dense::Update update{group, 0, {}};
    if (!groups[group].is_exact) update.factor = static_cast<float>(factor);
    std::vector<std::uint32_t> absent;
    for (const Gradients* one : step) {
      for (const Gradients::Group& part : one->dense) {
        if (part.group != group) continue;
        std::vector<std::uint32_t> both;
        std::set_intersection(absent.begin(), absent.end(), one->absent.begin(), one->absent.end(),
                              std::back_inserter(both));
        absent = update.grads.empty() ? one->absent : std::move(both);
        if (update.grads.empty()) update.lr = part.lr;
        update.grads.push_back(part.grads.values());
      }
    }
    for (std::size_t part = 0; part < groups[group].parameters.size(); ++part) {
      if (std::binary_search(absent.begin(), absent.end(), groups[group].parameters[part])) {
        update.absent.push_back(part);
      }
    }
    if (!update.grads.empty()) updates.push_back(std::move(update));
  }
  return updates;
}

std::size_t Holdings::apply_table(std::size_t table, const std::vector<const Gradients*>& step, const How& how) const {
  std::vector<Push> pushes;
  for (const Gradients* one : step) {
    for (const Gradients::Part& part : one->parts) {
      if (part.table != table) continue;
      Push push{};
      push.keys = part.keys;
      push.n = part.n;
      push.grads = part.grads.values();
      push.counts = part.counts;
      push.shows = part.shows;
      push.clicks = part.clicks;
      push.step = how.time;
      push.lr = part.lr;
      push.scale = static_cast<float>(how.factor / static_cast<double>(how.num_pushes));
      push.skip_nonfinite = skip_nonfinite_;
      push.skip_shards = how.skip_shards.empty() ? 0 : how.skip_shards[table];
      pushes.push_back(push);
    }
  }
  std::uint64_t num_rows = 0;
  for (const Push& one : pushes) num_rows += one.n;
  const trace::Scope span(trace::What::kTablePush, table, num_rows);
  return tables_[table]->push_all(pushes.data(), pushes.size()).skipped;
}

void Holdings::pull(const Wanted& wanted, std::byte* to) const {
  const Table& table = *tables_[wanted.table];
  if (wanted.format == WireFormat::kFloat32) {
    return table.pull(wanted.keys, wanted.n, reinterpret_cast<float*>(to), wanted.missing);
  }
  const std::size_t width = table.format().width, stride = fleet::row_bytes(wanted.format, width);
  const std::size_t num_parts = (wanted.n + kRows - 1) / kRows;
  Team::shared().parallel_for(num_parts, [&](std::size_t part) {
    const Slice slice = slice_of(wanted.n, num_parts, part);
    const std::size_t n = slice.end - slice.begin;
    Scratch<float> rows(n * width);
    table.pull(wanted.keys + slice.begin, n, rows.data(), wanted.missing);
    encode_rows(wanted.format, rows.data(), n, width, reinterpret_cast<std::uint8_t*>(to) + slice.begin * stride);
  });
}

}  // namespace fleet::plane
