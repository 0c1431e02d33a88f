#include "plane/holdings.h"

#include <algorithm>
#include <cmath>
#include <exception>
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
                   std::shared_ptr<Dense> dense, std::vector<bool> exact_groups, bool skip_nonfinite)
    : tables_(std::move(tables)),
      reads_zeros_(std::move(reads_zeros)),
      dense_(std::move(dense)),
      exact_groups_(std::move(exact_groups)),
      skip_nonfinite_(skip_nonfinite) {}

bool Holdings::read_wanted(const std::vector<std::uint32_t>& tables, const std::vector<std::uint32_t>& only_read,
                           const std::vector<std::uint32_t>& formats, const Extent* tensors, std::size_t num_tensors,
                           std::vector<Wanted>& wanted) const {
  const auto fits = [&](const std::vector<std::uint32_t>& list) {
    return list.empty() || list.size() == tables.size();
  };
  if (tables.size() != num_tensors || !fits(only_read) || !fits(formats)) return false;
  std::size_t total = 0;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    Wanted one{tables[i], nullptr, 0, Table::Missing::kFirst};
    if (one.table >= tables_.size()) return false;
    one.keys = keys_of(tensors[i], one.n);
    if (one.keys == nullptr) return false;
    if (!only_read.empty() && only_read[i] != 0 && reads_zeros_[one.table]) one.missing = Table::Missing::kZeros;
    if (!formats.empty() && !read_format(formats[i], one.format)) return false;
    total += one.n * width(one.table) * sizeof(float);
    if (total > kMaxMessage) return false;
    wanted.push_back(one);
  }
  return true;
}

bool Holdings::read(const PullHeader& header, const Message& message, std::vector<Wanted>& wanted) const {
  if (!header.is_plain || header.kept || (header.dense && dense_ == nullptr)) return false;
  WireFormat format;
  return read_format(header.dense_format, format) &&
         read_wanted(header.tables, header.only_read, header.formats, message.tensors.data(), message.tensors.size(),
                     wanted);
}

bool Holdings::read(const PushHeader& header, const Message& message, Gradients& gradients) const {
  const std::size_t num_pulls = header.pull_tables.size();
  if (!header.is_plain || num_pulls > message.tensors.size()) return false;
  if ((header.want_dense || !header.dense_lrs.empty()) && dense_ == nullptr) return false;
  WireFormat format;
  if (!read_format(header.dense_format, format)) return false;
  const std::size_t num_pushed = message.tensors.size() - num_pulls;
  const Extent* next = message.tensors.data();
  const Extent* end = next + num_pushed;
  if (header.is_pass && (num_pushed != 0 || !header.tables.empty() || !header.dense_lrs.empty())) return false;
  for (const PushHeader::Table& entry : header.tables) {
    if (!read_part(entry, next, end, gradients)) return false;
  }
  if (!read_dense(header, next, end, gradients) || gradients.decoded_bytes() > kMostDecoded) return false;
  return read_wanted(header.pull_tables, header.pull_only_read, header.pull_formats, end, num_pulls, gradients.pulls);
}

bool Holdings::read_part(const PushHeader::Table& entry, const Extent*& next, const Extent* end,
                         Gradients& gradients) const {
  const std::ptrdiff_t needed = 2 + (entry.has_counts ? 1 : 0) + (entry.has_clicks ? 2 : 0);
  if (entry.table >= tables_.size() || end - next < needed || !is_rate(entry.lr)) return false;
  Gradients::Part part{};
  part.table = entry.table;
  part.lr = entry.lr;
  WireFormat format;
  if (!read_format(entry.format, format) || !read_format(entry.row_format, part.row_format)) return false;
  part.keys = keys_of(*next++, part.n);
  if (part.keys == nullptr || !part.grads.take_rows(*next++, format, part.n, width(entry.table))) return false;
  if (entry.has_counts && (part.counts = items<std::uint32_t>(*next++, part.n)) == nullptr) return false;
  if (entry.has_clicks) {
    part.shows = items<float>(*next++, part.n);
    part.clicks = items<float>(*next++, part.n);
    if (part.shows == nullptr || part.clicks == nullptr) return false;
  }
  gradients.num_rows += part.n;
  gradients.parts.push_back(std::move(part));
  return true;
}

// The tensors from `next` on, which are those of all dense groups.
bool Holdings::read_dense(const PushHeader& header, const Extent* next, const Extent* end, Gradients& gradients) const {
  if (header.dense_lrs.empty()) return next == end && header.dense.empty();
  const std::size_t count = header.dense_groups.empty() ? dense_->num_groups() : header.dense_groups.size();
  if (header.dense_lrs.size() != count || (!header.dense.empty() && header.dense.size() != count)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t index = header.dense_groups.empty() ? static_cast<std::uint32_t>(i) : header.dense_groups[i];
    const PushHeader::Dense form = header.dense.empty() ? PushHeader::Dense{} : header.dense[i];
    if (index >= dense_->num_groups() || (i != 0 && index <= gradients.dense.back().group)) return false;
    Gradients::Group group{index, header.dense_lrs[i], {}};
    WireFormat format;
    if (!is_rate(group.lr) || !read_format(form.format, format)) return false;
    if (end - next < (form.is_sparse ? 2 : 1)) return false;
    const Extent* own = next;
    next += form.is_sparse ? 2 : 1;
    const std::size_t size = dense_->size(index);
    if (!(form.is_sparse ? group.grads.take_some(own[0], own[1], format, size)
                         : group.grads.take_vector(own[0], format, size))) {
      return false;
    }
    gradients.dense.push_back(std::move(group));
  }
  return next == end;
}

bool Holdings::is_safe(const std::vector<const Gradients*>& step) const {
  std::vector<double> table_sums(tables_.size(), 0.0);
  std::vector<double> dense_sums(dense_ == nullptr ? 0 : dense_->num_groups(), 0.0);
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
        update.grads.push_back(part.grads.values());
      }
    }
    if (!update.grads.empty()) updates.push_back(std::move(update));
  }
  if (updates.empty()) return skipped;
  const trace::Scope span(trace::What::kDense, updates.size());
  return skipped + dense_->apply(updates, num_pushes, skip_nonfinite_);
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
      push.grads = part.grads.values();
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
