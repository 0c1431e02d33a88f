#include "plane/reader.h"

#include <algorithm>
#include <cmath>

namespace fleet::plane {

namespace {

bool refuse(Refusal& why, const char* what, std::uint64_t given = 0, std::uint64_t wanted = 0,
            std::int64_t place = -1) {
  why = {what, place, given, wanted};
  return false;
}

bool read_keys(const Extent& tensor, std::uint32_t table, const std::int64_t*& keys, std::size_t& n, Refusal& why) {
  n = tensor.size / sizeof(std::int64_t);
  keys = items<std::int64_t>(tensor, n);
  return keys != nullptr || refuse(why, "keys", tensor.size, 0, table);
}

bool read_number(std::uint32_t number, WireFormat& format, std::int64_t place, Refusal& why) {
  return read_format(number, format) || refuse(why, "format", number, kNumFormats, place);
}

bool read_rate(double lr, std::int64_t table, Refusal& why) {
  if (lr >= 0 && std::isfinite(lr)) return true;
  refuse(why, "rate", 0, 0, table);
  why.rate = lr;
  return false;
}

}  // namespace

bool Reader::read(const PullHeader& header, const std::vector<Extent>& tensors, std::vector<Wanted>& wanted,
                  Refusal& why) const {
  WireFormat format;
  return read_number(header.dense_format, format, -1, why) &&
         read_wanted({header.tables, header.only_read, header.formats}, tensors.data(), tensors.size(), wanted, why);
}

bool Reader::read_wanted(const Asked& asked, const Extent* tensors, std::size_t num_tensors,
                         std::vector<Wanted>& wanted, Refusal& why) const {
  const std::size_t count = asked.tables.size();
  const auto fits = [&](const std::vector<std::uint32_t>& list) { return list.empty() || list.size() == count; };
  if (count != num_tensors) return refuse(why, "tensors of keys", num_tensors, count);
  if (!fits(asked.only_read)) return refuse(why, "flags of reading", asked.only_read.size(), count);
  if (!fits(asked.formats)) return refuse(why, "formats of rows", asked.formats.size(), count);
  std::size_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Wanted one{asked.tables[i], nullptr, 0, fleet::Table::Missing::kFirst};
    if (one.table >= job_.tables.size()) return refuse(why, "table", one.table);
    const Table& table = job_.tables[one.table];
    if (!read_keys(tensors[i], one.table, one.keys, one.n, why)) return false;
    if (!asked.only_read.empty() && asked.only_read[i] != 0 && table.reads_zeros) {
      one.missing = fleet::Table::Missing::kZeros;
    }
    if (!asked.formats.empty() && !read_number(asked.formats[i], one.format, one.table, why)) return false;
    total += one.n * table.width * sizeof(float);
    wanted.push_back(one);
  }
  return total <= kMaxMessage || refuse(why, "answer", total, kMaxMessage);
}

bool Reader::read(const PushHeader& header, const std::vector<Extent>& tensors, Gradients& gradients,
                  Refusal& why) const {
  const std::size_t num_pulls = header.pull_tables.size();
  if (header.is_delta != job_.takes_deltas) return refuse(why, "delta");
  if (num_pulls > tensors.size()) return refuse(why, "pulls", tensors.size(), num_pulls);
  const Extent* next = tensors.data();
  const Extent* const end = next + (tensors.size() - num_pulls);
  WireFormat format;
  if (!read_wanted({header.pull_tables, header.pull_only_read, header.pull_formats}, end, num_pulls, gradients.pulls,
                   why) ||
      !read_number(header.dense_format, format, -1, why)) {
    return false;
  }
  if (header.is_pass && (!job_.takes_passes || next != end || !header.tables.empty() || !header.dense_lrs.empty())) {
    return refuse(why, "pass");
  }
  for (const PushHeader::Table& entry : header.tables) {
    if (!read_part(entry, next, end, gradients, why)) return false;
  }
  if (!read_dense(header, next, end, gradients, why)) return false;
  gradients.absent = header.absent;
  std::sort(gradients.absent.begin(), gradients.absent.end());
  if (!header.absent.empty() && (gradients.absent.back() >= job_.num_parameters || gradients.dense.empty())) {
    return refuse(why, "absent", gradients.absent.back(), job_.num_parameters);
  }
  return true;
}

bool Reader::read_part(const PushHeader::Table& entry, const Extent*& next, const Extent* end, Gradients& gradients,
                       Refusal& why) const {
  if (entry.table >= job_.tables.size()) return refuse(why, "table", entry.table);
  const std::ptrdiff_t needed = 2 + (entry.has_counts ? 1 : 0) + (entry.has_clicks ? 2 : 0);
  if (end - next < needed) {
    return refuse(why, "tensors", static_cast<std::uint64_t>(end - next), static_cast<std::uint64_t>(needed),
                  entry.table);
  }
  Gradients::Part part{};
  part.table = entry.table;
  part.lr = entry.lr;
  part.width = job_.tables[entry.table].width;
  WireFormat format;
  if (!read_keys(*next++, entry.table, part.keys, part.n, why) ||
      !read_number(entry.format, format, entry.table, why) ||
      !read_number(entry.row_format, part.row_format, entry.table, why)) {
    return false;
  }
  const Extent& grads = *next++;
  if (!part.grads.take_rows(grads, format, part.n, part.width)) {
    why = {"gradients", entry.table, grads.size, part.n, part.width, format};
    return false;
  }
  const auto column = [&](const char* what, auto*& values) {
    const Extent& tensor = *next++;
    values = items<std::remove_cv_t<std::remove_reference_t<decltype(*values)>>>(tensor, part.n);
    return values != nullptr || refuse(why, what, tensor.size, part.n, entry.table);
  };
  if (entry.has_counts && !column("counts", part.counts)) return false;
  if (entry.has_clicks && !(column("clicks", part.shows) && column("clicks", part.clicks))) return false;
  if (!read_rate(entry.lr, entry.table, why)) return false;
  gradients.num_rows += part.n;
  gradients.parts.push_back(std::move(part));
  return true;
}

// The tensors from `next` on, which are those of all dense groups.
bool Reader::read_dense(const PushHeader& header, const Extent* next, const Extent* end, Gradients& gradients,
                        Refusal& why) const {
  const auto num_left = static_cast<std::uint64_t>(end - next);
  if (header.dense_lrs.empty()) return next == end || refuse(why, "rest", num_left);
  const std::vector<std::uint32_t>& named = header.dense_groups;
  const std::size_t count = named.empty() ? job_.groups.size() : named.size();
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (named[i] >= job_.groups.size() || (i != 0 && named[i] <= named[i - 1])) {
      return refuse(why, "groups", named[i], job_.groups.size());
    }
  }
  if (!header.dense.empty() && header.dense.size() != count) return refuse(why, "forms", header.dense.size(), count);
  std::uint64_t needed = count;
  for (const PushHeader::Dense& form : header.dense) needed += form.is_sparse ? 1 : 0;
  if (num_left != needed) return refuse(why, "dense tensors", num_left, needed);
  if (header.dense_lrs.size() != count) return refuse(why, "learning rates", header.dense_lrs.size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    const PushHeader::Dense form = header.dense.empty() ? PushHeader::Dense{} : header.dense[i];
    Gradients::Group group{named.empty() ? static_cast<std::uint32_t>(i) : named[i], header.dense_lrs[i], {}};
    if (!read_group(form, next, group, why) || !read_rate(group.lr, -1, why)) return false;
    next += form.is_sparse ? 2 : 1;
    gradients.dense.push_back(std::move(group));
  }
  return true;
}

bool Reader::read_group(const PushHeader::Dense& form, const Extent* own, Gradients::Group& group, Refusal& why) const {
  const std::size_t size = job_.groups[group.group].size;
  WireFormat format;
  if (!read_number(form.format, format, -1, why)) return false;
  if (!form.is_sparse) {
    if (group.grads.take_vector(own[0], format, size)) return true;
    why = {"dense", group.group, own[0].size, size, 0, format};
    return false;
  }
  if (group.grads.take_some(own[0], own[1], format, size)) return true;
  const std::size_t num_places = own[0].size / sizeof(std::int32_t);
  if (own[0].size % sizeof(std::int32_t) != 0 || own[1].size == vector_bytes(format, num_places)) {
    return refuse(why, "places", own[0].size, size, group.group);
  }
  why = {"dense", group.group, own[1].size, num_places, 0, format};
  return false;
}

}  // namespace fleet::plane
