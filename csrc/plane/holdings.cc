#include "plane/holdings.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

#include "table/finite.h"

namespace fleet::plane {

namespace {

// Sums of magnitudes up to this fit a float32, however they are rounded on the way.
constexpr double kSafe = std::numeric_limits<float>::max() / 16.0;

// The items of a tensor; null if it does not hold so many, or lies where they cannot be read in place.
template <class T>
const T* items(const Extent& tensor, std::size_t n) {
  if (tensor.size != n * sizeof(T) || reinterpret_cast<std::uintptr_t>(tensor.data) % alignof(T) != 0) return nullptr;
  return reinterpret_cast<const T*>(tensor.data);
}

const std::int64_t* keys_of(const Extent& tensor, std::size_t& n) {
  n = tensor.size / sizeof(std::int64_t);
  return items<std::int64_t>(tensor, n);
}

bool is_rate(double lr) { return lr >= 0 && std::isfinite(lr); }

// Rates that float32 cannot tell apart are one: workers may compute them on different machines.
bool agrees(double& known, double lr) {
  if (known < 0) known = lr;
  return std::fabs(known - lr) <= 1e-6 * std::max(known, lr);
}

}  // namespace

Holdings::Holdings(std::vector<std::shared_ptr<Table>> tables, std::vector<bool> reads_zeros,
                   std::shared_ptr<Dense> dense, bool skip_nonfinite)
    : tables_(std::move(tables)),
      reads_zeros_(std::move(reads_zeros)),
      dense_(std::move(dense)),
      skip_nonfinite_(skip_nonfinite) {}

bool Holdings::read_wanted(const std::vector<std::uint32_t>& tables, const std::vector<std::uint32_t>& only_read,
                           const Extent* tensors, std::size_t num_tensors, std::vector<Wanted>& wanted) const {
  if (tables.size() != num_tensors || (!only_read.empty() && only_read.size() != tables.size())) return false;
  std::size_t total = 0;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    Wanted one{tables[i], nullptr, 0, Table::Missing::kFirst};
    if (one.table >= tables_.size()) return false;
    one.keys = keys_of(tensors[i], one.n);
    if (one.keys == nullptr) return false;
    if (!only_read.empty() && only_read[i] != 0 && reads_zeros_[one.table]) one.missing = Table::Missing::kZeros;
    total += row_bytes(one);
    if (total > kMaxMessage) return false;
    wanted.push_back(one);
  }
  return true;
}

bool Holdings::read(const PullHeader& header, const Message& message, std::vector<Wanted>& wanted) const {
  if (!header.is_plain || header.kept || (header.dense && dense_ == nullptr)) return false;
  return read_wanted(header.tables, header.only_read, message.tensors.data(), message.tensors.size(), wanted);
}

bool Holdings::read(const PushHeader& header, const Message& message, Gradients& gradients) const {
  const std::size_t num_pulls = header.pull_tables.size();
  if (!header.is_plain || num_pulls > message.tensors.size()) return false;
  if ((header.want_dense || !header.dense_lrs.empty()) && dense_ == nullptr) return false;
  const std::size_t num_pushed = message.tensors.size() - num_pulls;
  const Extent* next = message.tensors.data();
  const Extent* end = next + num_pushed;
  if (header.is_pass && (num_pushed != 0 || !header.tables.empty() || !header.dense_lrs.empty())) return false;
  for (const PushHeader::Table& entry : header.tables) {
    const std::ptrdiff_t needed = 2 + (entry.has_counts ? 1 : 0) + (entry.has_clicks ? 2 : 0);
    if (entry.table >= tables_.size() || end - next < needed || !is_rate(entry.lr)) return false;
    Gradients::Part part{entry.table, entry.lr, nullptr, 0, nullptr, nullptr, nullptr, nullptr, -1};
    part.keys = keys_of(*next++, part.n);
    if (part.keys == nullptr) return false;
    part.grads = items<float>(*next++, part.n * width(entry.table));
    if (part.grads == nullptr) return false;
    if (entry.has_counts && (part.counts = items<std::uint32_t>(*next++, part.n)) == nullptr) return false;
    if (entry.has_clicks) {
      part.shows = items<float>(*next++, part.n);
      part.clicks = items<float>(*next++, part.n);
      if (part.shows == nullptr || part.clicks == nullptr) return false;
    }
    gradients.parts.push_back(part);
    gradients.num_rows += part.n;
  }
  if (!header.dense_lrs.empty()) {
    const std::size_t count = header.dense_groups.empty() ? dense_->num_groups() : header.dense_groups.size();
    if (header.dense_lrs.size() != count || static_cast<std::size_t>(end - next) != count) return false;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t group = header.dense_groups.empty() ? static_cast<std::uint32_t>(i) : header.dense_groups[i];
      if (group >= dense_->num_groups() || (i != 0 && group <= gradients.dense.back().group)) return false;
      const float* grads = items<float>(*next++, dense_->size(group));
      if (grads == nullptr || !is_rate(header.dense_lrs[i])) return false;
      gradients.dense.push_back({group, header.dense_lrs[i], grads, -1});
    }
  } else if (next != end) {
    return false;
  }
  return read_wanted(header.pull_tables, header.pull_only_read, end, num_pulls, gradients.pulls);
}

bool Holdings::is_safe(const std::vector<const Gradients*>& step) const {
  std::vector<double> table_sums(tables_.size(), 0.0);
  std::vector<double> dense_sums(dense_ == nullptr ? 0 : dense_->num_groups(), 0.0);
  std::vector<double> table_rates(table_sums.size(), -1.0), dense_rates(dense_sums.size(), -1.0);
  for (const Gradients* one : step) {
    for (const Gradients::Part& part : one->parts) {
      if (!agrees(table_rates[part.table], part.lr)) return false;
      if (part.shows != nullptr && !(all_finite(part.shows, part.n) && all_finite(part.clicks, part.n))) return false;
      if (skip_nonfinite_) continue;
      if (part.largest < 0) part.largest = largest(part.grads, part.n * width(part.table));
      table_sums[part.table] += static_cast<double>(part.n) * static_cast<double>(part.largest);
    }
    for (const Gradients::Group& group : one->dense) {
      if (!agrees(dense_rates[group.group], group.lr)) return false;
      if (skip_nonfinite_) continue;
      if (group.largest < 0) group.largest = largest(group.grads, dense_->size(group.group));
      dense_sums[group.group] += group.largest;
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

std::size_t Holdings::apply(const std::vector<const Gradients*>& step, std::uint32_t time, std::size_t num_pushes,
                            const std::vector<std::uint64_t>& skip_shards) const {
  std::vector<bool> touched(tables_.size(), false);
  for (const Gradients* one : step) {
    for (const Gradients::Part& part : one->parts) touched[part.table] = true;
  }
  std::size_t skipped = 0;
  for (std::size_t table = 0; table < tables_.size(); ++table) {
    if (!touched[table]) continue;
    skipped += apply_table(table, step, time, num_pushes, skip_shards.empty() ? 0 : skip_shards[table]);
  }
  if (dense_ == nullptr) return skipped;
  std::vector<Dense::Update> updates;
  for (std::uint32_t group = 0; group < dense_->num_groups(); ++group) {
    Dense::Update update{group, 0, {}};
    for (const Gradients* one : step) {
      for (const Gradients::Group& part : one->dense) {
        if (part.group != group) continue;
        if (update.grads.empty()) update.lr = part.lr;
        update.grads.push_back(part.grads);
      }
    }
    if (!update.grads.empty()) updates.push_back(std::move(update));
  }
  return updates.empty() ? skipped : skipped + dense_->apply(updates, num_pushes, skip_nonfinite_);
}

std::size_t Holdings::apply_table(std::size_t table, const std::vector<const Gradients*>& step, std::uint32_t time,
                                  std::size_t num_pushes, std::uint64_t skip_shards) const {
  std::vector<Push> pushes;
  for (const Gradients* one : step) {
    for (const Gradients::Part& part : one->parts) {
      if (part.table != table) continue;
      Push push{};
      push.keys = part.keys;
      push.n = part.n;
      push.grads = part.grads;
      push.counts = part.counts;
      push.shows = part.shows;
      push.clicks = part.clicks;
      push.step = time;
      push.lr = part.lr;
      push.scale = static_cast<float>(1.0 / static_cast<double>(num_pushes));
      push.skip_nonfinite = skip_nonfinite_;
      push.skip_shards = skip_shards;
      pushes.push_back(push);
    }
  }
  return tables_[table]->push_all(pushes.data(), pushes.size()).skipped;
}

void Holdings::pull(const Wanted& wanted, std::byte* to) const {
  tables_[wanted.table]->pull(wanted.keys, wanted.n, reinterpret_cast<float*>(to), wanted.missing);
}

}  // namespace fleet::plane
