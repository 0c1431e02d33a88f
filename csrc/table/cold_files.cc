// Rows on the disk on their way to and from other files.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "table/cold_group.h"

namespace fleet {

namespace {

Clicks clicks_of(const std::byte* record) {
  Clicks clicks;
  std::memcpy(&clicks, record + 16, sizeof(clicks));
  return clicks;
}

Mark mark_of(const std::byte* record) {
  Mark mark;
  std::memcpy(&mark, record + 8, sizeof(mark));
  return mark;
}

}  // namespace

// Nothing old can come back.
template <class IsGone>
std::size_t Table::rewrite_cold(std::size_t s, Shard& shard, IsGone&& is_gone) const {
  ColdShard& cold = *shard.cold;
  std::size_t gone = 0;
  const auto merged = disk::merge(cold.runs, tier_->next_path(s), cold.runs.back()->level(), [&](std::byte* record) {
    const std::int64_t key = disk::key_of(record);
    if (shard.index.find(key, Index::place(mix64(key))) != Index::kNone) return false;
    if (!is_gone(record)) return true;
    ++gone;
    return false;
  });
  for (const auto& run : cold.runs) ::unlink(run->file().path().c_str());
  cold.set_runs(merged == nullptr ? disk::Runs{} : disk::Runs{merged});
  shard.index.for_each([&](std::int64_t, std::uint32_t row) { cold.flag(row) = ColdShard::kChanged; });
  cold.num_both = 0;
  cold.num_cold -= gone;
  ++cold.epoch;
  return gone;
}

void Table::shrink_cold(std::size_t s, Shard& shard, const ShrinkRule& rule, std::size_t& deleted) const {
  ColdShard& cold = *shard.cold;
  const bool has_clicks = options_.entry.has_clicks();
  const bool has_old = std::any_of(cold.runs.begin(), cold.runs.end(), [&](const auto& run) {
    return rule.unseen_steps != 0 && rule.now > run->oldest_step() && rule.now - run->oldest_step() > rule.unseen_steps;
  });
  const bool is_scored = has_clicks && (rule.use_score || rule.decay != 0);
  if (cold.runs.empty() || !(has_old || is_scored)) return;
  deleted += rewrite_cold(s, shard, [&](std::byte* record) {
    Clicks clicks = has_clicks ? clicks_of(record) : Clicks{};
    const bool is_gone = is_done(rule, mark_of(record), has_clicks ? &clicks : nullptr);
    if (has_clicks) std::memcpy(record + 16, &clicks, sizeof(clicks));
    const std::int64_t key = disk::key_of(record);
    if (is_gone) {
      for (Watch& watch : shard.watches) touch_for(shard, watch, key, Index::place(mix64(key)));
    }
    return is_gone;
  });
}

std::size_t Table::erase_cold(std::size_t s, Shard& shard, const std::vector<std::int64_t>& keys) const {
  const ColdShard& cold = *shard.cold;
  const bool may_be_there = std::any_of(cold.runs.begin(), cold.runs.end(), [&](const auto& run) {
    return std::any_of(keys.begin(), keys.end(), [&](std::int64_t key) { return run->may_hold(mix64(key)); });
  });
  if (!may_be_there) return 0;
  const std::unordered_set<std::int64_t> gone(keys.begin(), keys.end());
  return rewrite_cold(s, shard, [&](std::byte* record) { return gone.count(disk::key_of(record)) != 0; });
}

void Table::doomed_cold(const Shard& shard, const ShrinkRule& rule, std::vector<std::int64_t>& keys) const {
  const bool has_clicks = options_.entry.has_clicks();
  for (disk::Scan scan(shard.cold->runs); scan.record() != nullptr; scan.next()) {
    const std::int64_t key = disk::key_of(scan.record());
    if (shard.index.find(key, Index::place(scan.hash())) != Index::kNone) continue;
    Clicks clicks = has_clicks ? clicks_of(scan.record()) : Clicks{};
    if (is_done(rule, mark_of(scan.record()), has_clicks ? &clicks : nullptr)) keys.push_back(key);
  }
}

void Table::dump_cold(Rows& out, const Shard& shard, std::size_t begin) const {
  const disk::Shape& shape = tier_->shape;
  const std::size_t value_bytes = format_.width * format_.value_size(), state_width = format_.state_width;
  const std::size_t end = begin + shard.cold->num_cold;
  out.marks.keys.resize(end);
  out.marks.seen.resize(end);
  out.marks.step.resize(end);
  if (shape.has_clicks) {
    out.marks.shows.resize(end);
    out.marks.clicks.resize(end);
  }
  out.values.resize(end * value_bytes);
  out.state.resize(end * state_width);
  std::size_t at = begin;
  for (disk::Scan scan(shard.cold->runs); scan.record() != nullptr; scan.next()) {
    const std::byte* record = scan.record();
    const std::int64_t key = disk::key_of(record);
    if (shard.index.find(key, Index::place(scan.hash())) != Index::kNone) continue;
    if (at == end) throw disk::DiskError("table '" + options_.name + "': its files have more rows than it counted", 0);
    const Mark mark = mark_of(record);
    out.marks.keys[at] = key;
    out.marks.seen[at] = mark.seen;
    out.marks.step[at] = mark.step;
    if (shape.has_clicks) {
      out.marks.shows[at] = clicks_of(record).shows;
      out.marks.clicks[at] = clicks_of(record).clicks;
    }
    const std::byte* row = record + shape.row_at;
    std::memcpy(out.values.data() + at * value_bytes, row, value_bytes);
    if (state_width != 0) {  // or there is nowhere to copy nothing to
      std::memcpy(out.state.data() + at * state_width, row + format_.state_at(), state_width * sizeof(float));
    }
    ++at;
  }
  if (at != end) throw disk::DiskError("table '" + options_.name + "': its files have fewer rows than it counted", 0);
}

Rows Table::seal(std::size_t first_shard, std::size_t last_shard, const std::string& folder, const std::string& prefix,
                 std::vector<ShardFiles>& files) const {
  Rows out;
  for (std::size_t s = first_shard; s < last_shard && tier_ != nullptr; ++s) {
    const std::lock_guard<std::mutex> lock(shards_[s]->mutex);
    files.push_back(link_files(s, folder, prefix));
    dump_changed(out, *shards_[s]);
  }
  return out;
}

// Under the shard's lock: what is here now stays until it is linked.
ShardFiles Table::link_files(std::size_t s, const std::string& folder, const std::string& prefix) const {
  const ColdShard& cold = *shards_[s]->cold;
  ShardFiles files;
  files.shard = s;
  files.num_keys = cold.num_cold + cold.num_both;
  for (const auto& run : cold.runs) {
    run->sync();
    files.names.push_back(prefix + disk::name_of(*run));
    run->file().link_to(folder + "/" + files.names.back());
  }
  return files;
}

void Table::attach(const ShardFiles& files, const std::string& folder) {
  if (tier_ == nullptr || files.shard >= kShards) throw std::invalid_argument("there is no disk for such files");
  Shard& shard = *shards_[files.shard];
  ColdShard& cold = *shard.cold;
  const std::lock_guard<std::mutex> replacing(cold.replacing);
  const std::lock_guard<std::mutex> lock(shard.mutex);
  if (shard.index.size() != 0 || !cold.runs.empty()) {
    throw std::invalid_argument("table '" + options_.name + "': files are attached to a shard that is empty");
  }
  disk::Runs runs;
  std::vector<std::string> paths;
  try {
    for (const std::string& name : files.names) {
      const std::string path = paths.emplace_back(tier_->next_path(files.shard));
      const std::string from = folder + "/" + name;
      disk::link_or_copy(from, path);
      runs.push_back(disk::Run::open(path, tier_->shape, disk::id_in(name), from + " (in use as " + path + ")"));
    }
    if (disk::total_size(runs) < files.num_keys) {
      throw disk::DiskError(
          folder + " lacks rows of shard " + std::to_string(files.shard) + "; begin anew from a checkpoint", 0);
    }
  } catch (...) {
    for (const std::string& path : paths) ::unlink(path.c_str());
    throw;
  }
  touch_shard(shard);
  cold.set_runs(std::move(runs));
  cold.num_cold = files.num_keys;
  ++cold.epoch;
}

std::size_t Table::restore_file(const std::string& path, std::uint32_t server, std::uint32_t num_servers) {
  const disk::Shape shape(format_.row_bytes(), options_.entry.has_clicks());
  const std::size_t value_bytes = format_.width * format_.value_size(), state_width = format_.state_width;
  std::size_t taken = 0;
  Rows some;
  const auto put = [&] {
    const auto& m = some.marks;
    RowsView view{};
    view.marks = {m.keys.data(), m.keys.size(), m.seen.data(), m.step.data(), m.shows.data(), m.clicks.data()};
    view.values = some.values.data();
    view.state = some.state.data();
    taken += restore(view, server, num_servers);
    some = Rows();
  };
  for (disk::RunReader reader(disk::Run::open(path, shape, disk::id_in(path))); reader.record() != nullptr;
       reader.next()) {
    const std::byte* record = reader.record();
    const Mark mark = mark_of(record);
    some.marks.keys.push_back(disk::key_of(record));
    some.marks.seen.push_back(mark.seen);
    some.marks.step.push_back(mark.step);
    if (shape.has_clicks) {
      some.marks.shows.push_back(clicks_of(record).shows);
      some.marks.clicks.push_back(clicks_of(record).clicks);
    }
    const std::byte* row = record + shape.row_at;
    some.values.insert(some.values.end(), row, row + value_bytes);
    some.state.resize(some.state.size() + state_width);
    if (state_width != 0) {
      std::memcpy(some.state.data() + some.state.size() - state_width, row + format_.state_at(), state_width * 4);
    }
    if (some.marks.keys.size() == Block::kSize) put();
  }
  put();
  return taken;
}

std::size_t Table::restore_cold(const RowsView& rows, std::uint32_t server, std::uint32_t num_servers) {
  std::vector<std::int64_t> keys(Block::kSize);
  std::vector<std::size_t> from(Block::kSize);
  std::size_t taken = 0;
  // Rows come in the order of an index as a rule: it must be as large when they do (see Index::reserve).
  std::vector<std::size_t> counts(kShards);
  for (std::size_t i = 0; i < rows.marks.n; ++i) ++counts[mix64(rows.marks.keys[i]) % kShards];
  for (std::size_t s = 0; s < kShards; ++s) {
    if (counts[s] == 0) continue;
    Shard& shard = *shards_[s];
    const std::lock_guard<std::mutex> lock(shard.mutex);
    shard.index.reserve(std::min(shard.index.size() + counts[s], most_rows(shard) + Block::kSize));
  }
  const auto put = [&](Shard& shard, const Block& block, std::size_t begin, std::size_t end) {
    restore_group(shard, block, begin, end, rows, from.data());
    note_changed(shard, block, begin, end, keys.data());
  };
  for (std::size_t i = 0; i < rows.marks.n;) {
    std::size_t n = 0;
    for (; i < rows.marks.n && n < Block::kSize; ++i) {
      if (num_servers != 1 && server_of(rows.marks.keys[i], num_servers) != server) continue;
      keys[n] = rows.marks.keys[i];
      from[n++] = i;
    }
    taken += n;
    refuse_if_full();
    if (rows.on_disk == nullptr) {
      for_each_brought(keys.data(), n, 0,
                       [&](std::size_t, Shard& shard, const Block& block, std::size_t begin, std::size_t end,
                           std::size_t) { put(shard, block, begin, end); });
      continue;
    }
    for_each_group(keys.data(), n,
                   [&](std::size_t s, const Block& block, std::size_t begin, std::size_t end, std::size_t) {
                     Shard& shard = *shards_[s];
                     ColdShard& cold = *shard.cold;
                     const std::lock_guard<std::mutex> lock(shard.mutex);
                     put(shard, block, begin, end);
                     for (std::size_t j = begin; j < end; ++j) {
                       if (rows.on_disk[from[block.order[j]]] == 0) continue;
                       cold.flag(shard.index.find(keys[block.order[j]], block.places[j])) |= ColdShard::kOnDisk;
                       --cold.num_cold;
                       ++cold.num_both;
                     }
                     spill(s, shard);
                   });
  }
  RowsView waiting{};
  waiting.waiting = rows.waiting;
  restore_memory(waiting, server, num_servers);
  return taken;
}

void Table::dump_changed(Rows& out, const Shard& shard) const {
  const bool has_clicks = options_.entry.has_clicks();
  const std::size_t value_bytes = format_.width * format_.value_size(), state_width = format_.state_width;
  const auto put_mark = [&](Marks& marks, std::int64_t key, const Slab& slab, std::uint32_t row) {
    marks.keys.push_back(key);
    marks.seen.push_back(slab.mark(row).seen);
    marks.step.push_back(slab.mark(row).step);
    if (!has_clicks) return;
    marks.shows.push_back(slab.clicks(row).shows);
    marks.clicks.push_back(slab.clicks(row).clicks);
  };
  std::vector<std::pair<std::int64_t, std::uint32_t>> changed;
  shard.index.for_each([&](std::int64_t key, std::uint32_t row) {
    if ((shard.cold->flag(row) & ColdShard::kChanged) != 0) changed.emplace_back(key, row);
  });
  const std::size_t begin = out.marks.keys.size(), n = begin + changed.size();
  out.values.resize(n * value_bytes);
  out.state.resize(n * state_width);
  for (std::size_t i = 0; i < changed.size(); ++i) {
    if (i + 8 < changed.size()) __builtin_prefetch(shard.rows.row(changed[i + 8].second));
    const auto [key, row] = changed[i];
    put_mark(out.marks, key, shard.rows, row);
    out.on_disk.push_back((shard.cold->flag(row) & ColdShard::kOnDisk) != 0 ? 1 : 0);
    const std::byte* data = shard.rows.row(row);
    std::memcpy(out.values.data() + (begin + i) * value_bytes, data, value_bytes);
    std::copy_n(format_.state(data), state_width, out.state.data() + (begin + i) * state_width);
  }
  shard.waiting.for_each(
      [&](std::int64_t key, std::uint32_t row) { put_mark(out.waiting, key, shard.waiting_marks, row); });
}

}  // namespace fleet
