#include "table/cold.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>

namespace fleet {

namespace {

constexpr const char* kSuffix = ".run";

// As `mkdir -p`.
void make_folder(const std::string& folder) {
  for (std::size_t at = 1; at != std::string::npos;) {
    at = folder.find('/', at + 1);
    const std::string part = folder.substr(0, at);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) throw disk::failure("cannot be made", part, errno);
  }
}

void remove_files(const std::string& folder) {
  DIR* entries = ::opendir(folder.c_str());
  if (entries == nullptr) throw disk::failure("cannot be read", folder, errno);
  while (const dirent* entry = ::readdir(entries)) {
    const std::string name = entry->d_name;
    if (name.find(kSuffix) != std::string::npos) ::unlink((folder + "/" + name).c_str());
  }
  ::closedir(entries);
}

// Every run is an open file, and most systems allow many if one asks.
void allow_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

void ColdShard::set_runs(disk::Runs all) {
  runs = std::move(all);
  index_bytes = 0;
  for (const auto& run : runs) index_bytes += run->index_bytes();
}

std::pair<std::size_t, std::size_t> runs_to_merge(const ColdShard& cold) {
  const disk::Runs& runs = cold.runs;
  const std::size_t total = disk::total_size(runs), distinct = cold.num_cold + cold.num_both;
  if (runs.size() > 1 && total > distinct + distinct / 2 + 4096) return {0, runs.size()};
  for (std::size_t begin = 0, end; begin < runs.size(); begin = end) {
    for (end = begin; end < runs.size() && runs[end]->level() == runs[begin]->level();) ++end;
    if (end - begin >= Tier::kFanIn) return {begin, end};
  }
  return {0, 0};
}

Tier::Tier(const TableOptions& options, const disk::Shape& shape, std::function<void(std::size_t)> merge)
    : shape(shape),
      folder(options.folder),
      name_(options.name),
      budget_(options.memory_bytes / Table::kShards),
      merge_(std::move(merge)) {
  make_folder(folder);
  remove_files(folder);
  allow_files();
  thread_ = std::thread([this] { work(); });
}

void Tier::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Tier::~Tier() {
  stop();
  try {
    remove_files(folder);
  } catch (const disk::DiskError&) {  // somebody has removed the folder
  }
}

std::size_t Tier::hot_bytes(std::size_t taken) const {
  // A quarter is for what finds rows on the disk, and an eighth for what the system does not hand out row by row. Where
  // the former needs more, or keys that wait do, rows have to give way.
  const std::size_t left = budget_ / 8 * 7 - std::min(budget_ / 8 * 7, taken);
  return std::max(budget_ / 4, std::min(budget_ / 8 * 5, left));
}

std::string Tier::next_path(std::size_t shard) {
  char name[40];
  std::snprintf(name, sizeof(name), "/%02zu-%010llu%s", shard, static_cast<unsigned long long>(next_++), kSuffix);
  return folder + name;
}

void Tier::ask(std::size_t shard) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    asked_ |= std::uint64_t{1} << shard;
  }
  changed_.notify_all();
}

void Tier::wait_if_behind(std::size_t num_runs) {
  if (num_runs < kMostRuns || is_failing()) return;
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, std::chrono::seconds(1), [&] { return is_stopping_ || asked_ == 0; });
}

void Tier::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  std::size_t last = 0;
  while (true) {
    changed_.wait(lock, [&] { return is_stopping_ || asked_ != 0; });
    if (is_stopping_) return;
    std::size_t shard = last;
    do {
      shard = (shard + 1) % Table::kShards;
    } while (((asked_ >> shard) & 1u) == 0);
    last = shard;
    asked_ &= ~(std::uint64_t{1} << shard);
    lock.unlock();
    merge_(shard);
    changed_.notify_all();
    lock.lock();
  }
}

void Tier::fail(std::size_t shard, const disk::DiskError& error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  failing_shard_ = shard;
  failure_ = error.what();
  failure_code_ = error.code;
  is_failing_ = true;
}

std::pair<std::size_t, disk::DiskError> Tier::failure() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {failing_shard_,
          disk::DiskError("table '" + name_ + "' takes no push: its memory is full and rows cannot be moved to the " +
                              "disk (" + failure_ + "); make room there",
                          failure_code_)};
}

}  // namespace fleet
