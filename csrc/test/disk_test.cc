// Runs: what was written is found, in any block, and damage is told.
#include <fcntl.h>

#include <algorithm>
#include <map>
#include <random>

#include "checksum/crc32c.h"
#include "disk/head.h"
#include "disk/reads.h"
#include "disk/record_scan.h"
#include "disk/run_check.h"
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

TEST(files_are_linked_whatever_has_become_of_their_names) {
  const Folder folder;
  const disk::Shape shape(16, false);
  const std::string one = folder.path + "/one", two = folder.path + "/two";
  const std::vector<Key> first = some_keys(100, 1), second = some_keys(100, 2);
  const auto kept = write_run(one, shape, first, 1), other = write_run(two, shape, second, 2);
  CHECK(::rename(two.c_str(), one.c_str()) == 0);  // `kept` has no name, and `other` that of `kept`
  kept->file().link_to(folder.path + "/kept");
  other->file().link_to(folder.path + "/other");
  const disk::Buffer buffer = disk::make_buffer(shape.block_bytes);
  CHECK(find(*disk::Run::open(folder.path + "/kept", shape), first[0], buffer.get()) != nullptr);
  CHECK(find(*disk::Run::open(folder.path + "/other", shape), second[0], buffer.get()) != nullptr);
  CHECK(disk_error([&] { kept->file().link_to(folder.path + "/kept"); }).find("File exists") != std::string::npos);
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

TEST(runs_know_their_own_blocks) {
  const Folder folder;
  const disk::Shape shape(64, false);
  const auto keys = some_keys(1000, 3);
  const std::string path = folder.path + "/05-1.run", other = folder.path + "/05-2.run";
  const auto run = write_run(path, shape, keys, 1), later = write_run(other, shape, keys, 2);
  CHECK(run->id() != 0 && run->id() != later->id() && run->file_bytes() == later->file_bytes());
  CHECK(disk::id_in(disk::name_of(*run)) == run->id() && disk::name_of(*run).substr(0, 5) == "05-1-");
  CHECK(disk::id_in("05-0000000012.run") == 0 && disk::id_in("") == 0 && disk::id_in("x-0123456789abcdeX.run") == 0);
  CHECK(disk::Run::open(path, shape, run->id())->id() == run->id());
  const std::string wrong = disk_error([&] { disk::Run::open(path, shape, later->id(), "its name"); });
  CHECK(wrong.find("its name is damaged: it is another file of rows") == 0);
  const auto whole = [&] {
    disk::RunCheck check(path);
    while (check.next(3 * disk::kPage)) {
    }
    return check.done_bytes() == run->file_bytes();
  };
  CHECK(whole());
  // The same block of the other run, which has the same keys; and two blocks of this one, exchanged.
  const auto copy = [&](const std::string& from, std::uint64_t at, std::uint64_t to) {
    std::vector<char> block(shape.block_bytes);
    const int in = ::open(from.c_str(), O_RDONLY), out = ::open(path.c_str(), O_WRONLY);
    CHECK(::pread(in, block.data(), block.size(), static_cast<off_t>(at)) == static_cast<ssize_t>(block.size()));
    CHECK(::pwrite(out, block.data(), block.size(), static_cast<off_t>(to)) == static_cast<ssize_t>(block.size()));
    ::close(in);
    ::close(out);
  };
  copy(other, run->offset_of(2), run->offset_of(2));
  const auto opened = disk::Run::open(path, shape, run->id());
  CHECK(disk_error([&] { disk::merge({opened}, path + "m", 0, [](std::byte*) { return true; }); }).find("block 2 is") !=
        std::string::npos);
  CHECK(disk_error(whole).find("block 2 is not what was written") != std::string::npos);
  write_run(path, shape, keys, 1);
  CHECK(whole());
  copy(path, run->offset_of(4), run->offset_of(3));
  CHECK(disk_error(whole).find("block 3 is not what was written") != std::string::npos);
  for (std::uint64_t at = 0; at < run->file_bytes(); at += 509) {
    write_run(path, shape, keys, 1);
    flip(path, at);
    CHECK(disk_error(whole).find("is damaged") != std::string::npos);
  }
}

TEST(runs_of_the_first_version_are_read) {
  const Folder folder;
  const disk::Shape shape(64, false);
  const std::string path = folder.path + "/run";
  const auto keys = some_keys(300, 3);
  const auto run = write_run(path, shape, keys, 1);
  // As that version wrote it: no id in the head, and none in the checksums of blocks.
  const int file = ::open(path.c_str(), O_RDWR);
  std::vector<std::byte> block(shape.block_bytes);
  const auto bytes = static_cast<ssize_t>(block.size());
  for (std::size_t i = 0; i < run->num_blocks(); ++i) {
    CHECK(::pread(file, block.data(), block.size(), static_cast<off_t>(run->offset_of(i))) == bytes);
    const std::uint32_t sum = fleet::crc32c(block.data() + 4, block.size() - 4);
    std::memcpy(block.data(), &sum, 4);
    CHECK(::pwrite(file, block.data(), block.size(), static_cast<off_t>(run->offset_of(i))) == bytes);
  }
  std::vector<std::byte> page(disk::kPage);
  CHECK(::pread(file, page.data(), page.size(), 0) == static_cast<ssize_t>(page.size()));
  disk::Head head = disk::Head::of(page.data());
  head.version = disk::Head::kWithoutId;
  head.id = 0;
  head.sum = head.own_sum();
  std::memcpy(page.data(), &head, sizeof(head));
  CHECK(::pwrite(file, page.data(), page.size(), 0) == static_cast<ssize_t>(page.size()));
  const auto opened = disk::Run::open(path, shape);
  CHECK(opened->id() == 0 && disk::name_of(*opened) == "run");
  std::size_t n = 0;
  for (disk::Scan scan({opened}); scan.record() != nullptr; scan.next()) ++n;
  CHECK(n == keys.size());
  // Blocks that are exchanged are still told, by the keys that they begin with.
  CHECK(::pread(file, block.data(), block.size(), static_cast<off_t>(run->offset_of(1))) == bytes);
  CHECK(::pwrite(file, block.data(), block.size(), static_cast<off_t>(run->offset_of(0))) == bytes);
  ::close(file);
  CHECK(disk_error([&] { disk::Scan({opened}); }).find("block 0 is not what was written") != std::string::npos);
}

TEST(records_are_compared_however_the_bytes_are_cut) {
  const auto record = [](std::uint64_t number, std::size_t size) {
    std::vector<std::byte> body(size, std::byte{7}), made(32);
    const std::uint32_t magic = 0x314A4C46, sum = fleet::crc32c(body.data(), size);
    const std::uint64_t all = 32 + size;
    std::memcpy(&made[0], &magic, 4);
    std::memcpy(&made[8], &sum, 4);
    std::memcpy(&made[16], &number, 8);
    std::memcpy(&made[24], &all, 8);
    const std::uint32_t head = fleet::crc32c(&made[8], 24);
    std::memcpy(&made[4], &head, 4);
    made.insert(made.end(), body.begin(), body.end());
    return made;
  };
  std::vector<std::byte> file;
  for (const auto& [number, size] : {std::pair<std::uint64_t, std::size_t>{5, 16}, {6, 0}, {7, 1000}, {9, 8}}) {
    const auto one = record(number, size);
    file.insert(file.end(), one.begin(), one.end());
  }
  const auto scanned = [&](std::size_t size, std::size_t each) {
    disk::RecordScan scan;
    bool is_right = true;
    for (std::size_t at = 0; at < size && is_right; at += each) {
      is_right = scan.take(file.data() + at, std::min(each, size - at));
    }
    return std::pair(is_right, scan);
  };
  for (const std::size_t each : {1, 7, 32, 33, 5000}) {
    const auto [is_right, scan] = scanned(file.size(), each);
    CHECK(is_right && scan.num_records() == 4 && scan.first() == 5 && scan.last() == 9 && scan.most() == 9);
    CHECK(!scan.is_in_order() && scan.is_between() && scan.end() == file.size() &&
          scan.last_begin() == file.size() - 40);
    const auto [also, part] = scanned(file.size() - 1, each);
    CHECK(also && part.is_in_order() && part.last() == 7 && !part.is_between() && part.end() == file.size() - 40);
    for (std::size_t at = 0; at < file.size(); at += 13) {
      file[at] ^= std::byte{4};
      CHECK(!scanned(file.size(), each).first || scanned(file.size(), each).second.num_records() < 4);
      file[at] ^= std::byte{4};
    }
  }
}
