// Runs: what was written is found, in any block, and damage is told.
#include <fcntl.h>

#include <algorithm>
#include <map>
#include <random>

#include "disk/reads.h"
#include "disk/scan.h"
#include "folders.h"

namespace {

namespace disk = fleet::disk;

using Key = std::int64_t;

// Records of some keys; the first float of a row says which run it is of.
std::shared_ptr<disk::Run> write_run(const std::string& path, const disk::Shape& shape, std::vector<Key> keys,
                                     float value, std::uint32_t level = 0) {
  std::sort(keys.begin(), keys.end(), [](Key a, Key b) { return fleet::mix64(a) < fleet::mix64(b); });
  disk::RunWriter writer(path, shape, keys.size(), level);
  for (const Key key : keys) {
    std::byte* record = writer.add(fleet::mix64(key));
    const std::uint32_t mark[2] = {1, static_cast<std::uint32_t>(key & 0xff)};
    std::memcpy(record, &key, 8);
    std::memcpy(record + 8, mark, 8);
    std::memcpy(record + shape.row_at, &value, 4);
  }
  return writer.finish();
}

std::vector<Key> some_keys(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Key> keys(n);
  for (Key& key : keys) key = static_cast<Key>(random());
  return keys;
}

const std::byte* find(const disk::Run& run, Key key, std::byte* buffer) {
  const std::uint64_t hash = fleet::mix64(key);
  if (!run.may_hold(hash)) return nullptr;
  const std::size_t block = run.block_of(hash);
  if (block == disk::Run::kNone) return nullptr;
  const disk::Read read{&run.file(), run.offset_of(block), buffer, run.shape().block_bytes};
  disk::read_many(&read, 1);
  run.check_block(buffer, block);
  return run.find(buffer, key);
}

void flip(const std::string& path, std::uint64_t offset) {
  const int file = ::open(path.c_str(), O_RDWR);
  char byte = 0;
  CHECK(::pread(file, &byte, 1, static_cast<off_t>(offset)) == 1);
  byte = static_cast<char>(byte ^ 0x10);
  CHECK(::pwrite(file, &byte, 1, static_cast<off_t>(offset)) == 1);
  ::close(file);
}

template <class Call>
std::string disk_error(Call&& call) {
  try {
    call();
  } catch (const disk::DiskError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(runs_find_what_was_written) {
  const Folder folder;
  // Rows of 64 bytes; one in a block; one that is longer than a page.
  for (const std::size_t row_bytes : {std::size_t{64}, std::size_t{4000}, std::size_t{9000}}) {
    const disk::Shape shape(row_bytes, row_bytes == 4000);
    const std::string path = folder.path + "/" + std::to_string(row_bytes);
    const std::vector<Key> keys = some_keys(row_bytes == 64 ? 5000 : 300, 1), others = some_keys(20000, 2);
    const auto written = write_run(path, shape, keys, 7);
    const auto run = disk::Run::open(path, shape);
    const disk::Buffer buffer = disk::make_buffer(shape.block_bytes);
    for (const auto& one : {written, run}) {
      CHECK(one->size() == keys.size() && one->num_blocks() == (keys.size() + shape.per_block - 1) / shape.per_block);
      CHECK(one->oldest_step() < 3 && one->newest_step() > 200 && one->file().path() == path);
      for (const Key key : keys) CHECK(find(*one, key, buffer.get()) != nullptr);
      std::size_t perhaps = 0;
      for (const Key key : others) {
        perhaps += one->may_hold(fleet::mix64(key)) ? 1 : 0;
        CHECK(find(*one, key, buffer.get()) == nullptr);
      }
      CHECK(perhaps < others.size() / 50);
    }
    CHECK(run->index_bytes() < keys.size() * 10 + 8192);
  }
  CHECK(names_in(folder.path).size() == 3);
}

TEST(runs_merge_and_the_newest_wins) {
  const Folder folder;
  const disk::Shape shape(16, false);
  std::map<Key, float> expected;
  disk::Runs runs;
  for (int i = 0; i < 5; ++i) {
    std::vector<Key> keys = some_keys(3000, static_cast<std::uint64_t>(10 + i)), again = some_keys(500, 10);
    if (i > 0) keys.insert(keys.end(), again.begin(), again.end());
    for (const Key key : keys) expected[key] = static_cast<float>(i);
    runs.insert(runs.begin(), write_run(folder.path + "/" + std::to_string(i), shape, keys, static_cast<float>(i)));
  }
  const auto check = [&](const disk::Runs& some, bool is_odd_gone) {
    std::size_t n = 0;
    std::uint64_t last = 0;
    for (disk::Scan scan(some); scan.record() != nullptr; scan.next(), ++n) {
      float value;
      std::memcpy(&value, scan.record() + shape.row_at, 4);
      const Key key = disk::key_of(scan.record());
      CHECK(expected.at(key) == value && (n == 0 || scan.hash() > last) && !(is_odd_gone && key % 2 != 0));
      last = scan.hash();
    }
    return n;
  };
  CHECK(check(runs, false) == expected.size() && disk::total_size(runs) > expected.size());
  const auto keep_even = [](const std::byte* record) { return disk::key_of(record) % 2 == 0; };
  const auto half = disk::merge(runs, folder.path + "/even", 3, keep_even);
  CHECK(half->level() == 3 && check({half}, true) == half->size() && half->size() > 4000);
  CHECK(disk::merge(runs, folder.path + "/none", 3, [](std::byte*) { return false; }) == nullptr);
  CHECK(names_in(folder.path).size() == 6);
}

TEST(runs_tell_damage) {
  const Folder folder;
  const disk::Shape shape(64, false);
  const std::string path = folder.path + "/run";
  const auto keys = some_keys(1000, 3);
  const auto run = write_run(path, shape, keys, 1);
  CHECK(disk_error([&] { disk::Run::open(path, disk::Shape(32, false)); }).find("another table") != std::string::npos);
  CHECK(disk_error([&] { write_run(path, shape, keys, 1); }).empty());  // takes the place of the former
  for (const std::uint64_t offset : {std::uint64_t{3}, std::uint64_t{50}, run->file_bytes() - 9}) {
    flip(path, offset);
    CHECK(disk_error([&] { disk::Run::open(path, shape); }).find("is damaged") != std::string::npos);
    flip(path, offset);
  }
  flip(path, disk::kPage + 100);
  const auto opened = disk::Run::open(path, shape);  // blocks are looked at when they are read
  CHECK(disk_error([&] { disk::Scan({opened}); }).find("block 0 is not what was written") != std::string::npos);
  flip(path, disk::kPage + 100);
  CHECK(::truncate(path.c_str(), static_cast<off_t>(run->file_bytes() - disk::kPage)) == 0);
  CHECK(disk_error([&] { disk::Run::open(path, shape); }).find("ends too early") != std::string::npos);
  CHECK(disk_error([&] { disk::Run::open(folder.path + "/gone", shape); }).find("cannot be read") != std::string::npos);
}

TEST(many_reads_by_ring_and_by_threads) {
  const Folder folder;
  const disk::Shape shape(64, false);
  const auto run = write_run(folder.path + "/run", shape, some_keys(20000, 4), 1);
  const disk::Buffer a = disk::make_buffer(run->num_blocks() * disk::kPage);
  const disk::Buffer b = disk::make_buffer(run->num_blocks() * disk::kPage);
  std::vector<disk::Read> reads, same;
  for (std::size_t i = 0; i < run->num_blocks(); ++i) {
    reads.push_back({&run->file(), run->offset_of(i), a.get() + i * disk::kPage, disk::kPage});
    same.push_back({&run->file(), run->offset_of(i), b.get() + i * disk::kPage, disk::kPage});
  }
  disk::read_many(reads.data(), reads.size());
  disk::read_many_by_threads(same.data(), same.size());
  CHECK(std::memcmp(a.get(), b.get(), run->num_blocks() * disk::kPage) == 0);
  for (std::size_t i = 0; i < run->num_blocks(); ++i) run->check_block(a.get() + i * disk::kPage, i);
  for (auto* all : {&reads, &same}) all->push_back({&run->file(), run->file_bytes(), a.get(), disk::kPage});
  CHECK(disk_error([&] { disk::read_many(reads.data(), reads.size()); }).find("ends too early") != std::string::npos);
  CHECK(disk_error([&] { disk::read_many_by_threads(same.data(), same.size()); }) != "");
}
