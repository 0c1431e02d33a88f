// Bases find what was written, however many passes it took; a reader sees all of a batch or nothing of it.
#include <algorithm>
#include <atomic>
#include <fstream>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.h"
#include "disk/file.h"
#include "folders.h"
#include "serve/base.h"
#include "serve/tables.h"

namespace {

using fleet::WireFormat;
using fleet::serve::Base;
using fleet::serve::BaseWriter;
using fleet::serve::Tables;
using Keys = std::vector<std::int64_t>;
using Floats = std::vector<float>;

Keys some_keys(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Keys keys(n);
  for (auto& key : keys) key = static_cast<std::int64_t>(random());
  return keys;
}

Floats rows_of(const Keys& keys, std::size_t width) {
  Floats rows;
  for (const auto key : keys) {
    for (std::size_t d = 0; d < width; ++d) rows.push_back(static_cast<float>(key % 1000) + static_cast<float>(d) / 64);
  }
  return rows;
}

int write_base(const std::string& path, const Keys& keys, const Floats& rows, std::size_t width, WireFormat format,
               std::size_t memory) {
  BaseWriter writer(path, width, format, keys.size(), memory);
  writer.count(keys.data(), keys.size());
  int passes = 0;
  for (; writer.next_pass(); ++passes) {
    const std::size_t half = keys.size() / 2;
    writer.add(keys.data(), half, rows.data());
    writer.add(keys.data() + half, keys.size() - half, rows.data() + half * width);
  }
  writer.finish();
  return passes;
}

std::vector<std::int64_t> look_up(const Tables& tables, std::size_t table, const Keys& keys, Floats& rows) {
  rows.assign(keys.size() * tables.base(table).width(), -1.0f);
  std::vector<Tables::Wanted> wanted{{table, keys.data(), keys.size(), rows.data(), {}}};
  tables.lookup(wanted);
  return wanted[0].missing;
}

}  // namespace

TEST(a_served_base_has_what_was_written) {
  const Folder folder;
  const std::string path = folder.path + "/one";
  for (const std::size_t width : {1, 16, 33}) {
    const Keys keys = some_keys(3000, width), strangers = some_keys(500, 99);
    const Floats rows = rows_of(keys, width);
    CHECK(write_base(path, keys, rows, width, WireFormat::kFloat32, 1 << 30) == 1);
    const std::size_t each = 8 + width * 4;
    CHECK(write_base(path, keys, rows, width, WireFormat::kFloat32, each * 400) > 5);
    for (const bool in_memory : {false, true}) {
      const Tables tables({Base::open(path, in_memory)}, {7});
      Floats found;
      CHECK(look_up(tables, 0, keys, found).empty());
      CHECK(found == rows);
      CHECK(look_up(tables, 0, strangers, found).size() == strangers.size());
      CHECK(std::all_of(found.begin(), found.end(), [](float value) { return value == 0.0f; }));
      CHECK(tables.numbers() == std::vector<std::int64_t>{7});
    }
  }
}

TEST(a_served_base_may_have_no_rows_or_int8_rows) {
  const Folder folder;
  const std::string path = folder.path + "/one";
  Floats found;
  CHECK(write_base(path, {}, {}, 4, WireFormat::kFloat32, 100) == 1);
  const Tables none({Base::open(path, false)}, {0});
  CHECK(look_up(none, 0, {1, 2}, found).size() == 2);
  const Keys keys = some_keys(100, 5);
  const Floats rows = rows_of(keys, 8);
  write_base(path, keys, rows, 8, WireFormat::kInt8, 1 << 20);
  const Tables tables({Base::open(path, false)}, {0});
  CHECK(look_up(tables, 0, keys, found).empty());
  for (std::size_t i = 0; i < rows.size(); ++i) CHECK(std::abs(found[i] - rows[i]) < 1001.0f / 127);
}

TEST(a_file_that_is_no_whole_base_is_refused) {
  const Folder folder;
  const std::string path = folder.path + "/one";
  const Keys keys = some_keys(1000, 1);
  write_base(path, keys, rows_of(keys, 4), 4, WireFormat::kFloat32, 1 << 20);
  const auto refused = [&] {
    try {
      Base::open(path, false);
    } catch (const fleet::disk::DiskError&) {
      return true;
    }
    return false;
  };
  CHECK(!refused());
  CHECK(::truncate(path.c_str(), 20000) == 0);
  CHECK(refused());
  CHECK(::truncate(path.c_str(), 10) == 0);
  CHECK(refused());
  bool is_told = false;
  try {
    Keys twice = keys;
    twice[1] = twice[0];
    write_base(path, twice, rows_of(twice, 4), 4, WireFormat::kFloat32, 1 << 20);
  } catch (const std::invalid_argument&) {
    is_told = true;
  }
  CHECK(is_told && refused());
}

TEST(a_damaged_base_is_refused) {
  const Folder folder;
  const std::string path = folder.path + "/one";
  const Keys keys = some_keys(4000, 2);
  const auto is_refused = [&](std::int64_t at, bool in_memory) {
    write_base(path, keys, rows_of(keys, 4), 4, WireFormat::kFloat32, 20000);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.write("\xff\xff", 2);
    file.close();
    try {
      Base::open(path, in_memory);
    } catch (const fleet::disk::DiskError&) {
      return true;
    }
    return false;
  };
  const std::int64_t starts = 4096, keys_at = 8192, rows_at = keys_at + 32768;
  for (const bool in_memory : {false, true}) {
    for (const auto at : {starts, starts + 402, starts + 4000, keys_at, keys_at + 31000}) {
      CHECK(is_refused(at, in_memory));
    }
    CHECK(!is_refused(keys_at - 4, in_memory));  // nothing lies there
  }
  CHECK(is_refused(rows_at + 60000, true));
}

TEST(changes_stand_before_the_base) {
  const Folder folder;
  const std::string path = folder.path + "/one";
  const Keys keys = some_keys(2000, 3), others = some_keys(50, 4);
  Floats rows = rows_of(keys, 3), found;
  write_base(path, keys, rows, 3, WireFormat::kFloat32, 1 << 20);
  Tables tables({Base::open(path, false)}, {0, 0});
  std::mt19937_64 random(1);
  std::vector<bool> is_gone(keys.size(), false);
  for (std::int64_t number = 1; number <= 200; ++number) {
    Keys changed, gone;
    Floats values;
    for (int i = 0; i < 20; ++i) {
      const std::size_t at = random() % keys.size();
      const bool goes = random() % 4 == 0;
      if (std::find(changed.begin(), changed.end(), keys[at]) != changed.end()) continue;
      if (std::find(gone.begin(), gone.end(), keys[at]) != gone.end()) continue;
      is_gone[at] = goes;
      (goes ? gone : changed).push_back(keys[at]);
      if (goes) continue;
      for (int d = 0; d < 3; ++d) {
        rows[at * 3 + d] = static_cast<float>(number);
        values.push_back(rows[at * 3 + d]);
      }
    }
    tables.apply(number % 2, (number + 1) / 2,
                 {{0, changed.data(), changed.size(), values.data(), gone.data(), gone.size()}});
  }
  CHECK((tables.numbers() == std::vector<std::int64_t>{100, 100}));
  const auto missing = look_up(tables, 0, keys, found);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    CHECK(std::binary_search(missing.begin(), missing.end(), static_cast<std::int64_t>(i)) == is_gone[i]);
    for (int d = 0; d < 3; ++d) CHECK(found[i * 3 + d] == (is_gone[i] ? 0.0f : rows[i * 3 + d]));
  }
  // Rows that were replaced are used again: 200 batches of 20 rows fit where 2,000 keys may have one each.
  CHECK(tables.num_changed(0) <= keys.size());
  CHECK(tables.changed_bytes() < 200000);
}

TEST(a_reader_sees_whole_batches_of_all_tables) {
  const Folder folder;
  const Keys keys = some_keys(600, 6);
  std::vector<std::shared_ptr<const Base>> bases;
  for (int t = 0; t < 2; ++t) {
    const std::string path = folder.path + "/" + std::to_string(t);
    write_base(path, keys, Floats(keys.size() * 2, 0.0f), 2, WireFormat::kFloat32, 1 << 20);
    bases.push_back(Base::open(path, false));
  }
  Tables tables(bases, {0});
  std::atomic<bool> is_over{false};
  std::vector<std::thread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&] {
      std::int64_t last = 0;
      while (!is_over) {
        Floats first(keys.size() * 2), second(keys.size() * 2);
        std::vector<Tables::Wanted> wanted{{0, keys.data(), keys.size(), first.data(), {}},
                                           {1, keys.data(), keys.size(), second.data(), {}}};
        const std::int64_t number = tables.lookup(wanted)[0];
        CHECK(number >= last);
        last = number;
        for (const float value : first) CHECK(value == static_cast<float>(number));
        for (const float value : second) CHECK(value == static_cast<float>(number));
      }
    });
  }
  for (std::int64_t number = 1; number <= 300; ++number) {
    const Floats rows(keys.size() * 2, static_cast<float>(number));
    tables.apply(0, number,
                 {{0, keys.data(), keys.size(), rows.data(), nullptr, 0},
                  {1, keys.data(), keys.size(), rows.data(), nullptr, 0}});
  }
  is_over = true;
  for (auto& reader : readers) reader.join();
}
