// Messages of the data plane: what is written is read again, and no bytes make a reader look beyond them.
#include <cstring>
#include <memory>
#include <random>

#include "check.h"
#include "plane/frame.h"
#include "plane/message.h"

namespace {

using namespace fleet::plane;

// Bytes in a room of exactly their size, so that a sanitizer sees who reads beyond.
struct Exact {
  explicit Exact(const std::string& bytes) : size(bytes.size()), data(new std::byte[bytes.size()]) {
    if (size != 0) std::memcpy(data.get(), bytes.data(), size);
  }
  std::size_t size;
  std::unique_ptr<std::byte[]> data;
};

void put(std::string& to, std::uint64_t value) {
  for (; value > 0x7f; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

void put_number(std::string& to, unsigned field, std::uint64_t value) {
  put(to, field << 3);
  put(to, value);
}

void put_bytes(std::string& to, unsigned field, const std::string& bytes) {
  put(to, field << 3 | 2);
  put(to, bytes.size());
  to += bytes;
}

void put_double(std::string& to, unsigned field, double value) {
  put(to, field << 3 | 1);
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string packed(const std::vector<std::uint64_t>& values) {
  std::string made;
  for (const std::uint64_t one : values) put(made, one);
  return made;
}

std::string caller() {
  std::string made;
  put_number(made, 1, 7);
  put_number(made, 2, 1ull << 60);
  put_number(made, 3, 300);
  return made;
}

std::string pull_header() {
  std::string made;
  put_bytes(made, 1, caller());
  put_number(made, 2, 12345);
  put_bytes(made, 3, packed({0, 2, 300}));
  put_number(made, 4, 1);
  put_number(made, 5, 600000);
  put_bytes(made, 7, packed({1, 0, 1}));
  put_bytes(made, 8, packed({0, 3, 1}));
  put_number(made, 9, 2);
  return made;
}

std::string push_header() {
  std::string table, dense, made;
  put_number(table, 1, 2);
  put_double(table, 2, 0.125);
  put_number(table, 3, 1);
  put_number(table, 4, 1);
  put_number(table, 5, 1);
  put_number(table, 6, 3);
  put_number(dense, 1, 2);
  put_number(dense, 2, 1);
  put_bytes(made, 1, caller());
  put_number(made, 2, 41);
  put_number(made, 3, 42);
  put_number(made, 4, 43);
  put_bytes(made, 5, table);
  put_double(made, 6, 0.5);
  put_double(made, 6, 0.25);
  put_number(made, 7, 1);
  put_number(made, 9, 1);
  put_bytes(made, 10, packed({1, 0}));
  put_number(made, 11, 1000);
  put_bytes(made, 12, packed({0, 3}));
  put_bytes(made, 14, "where it is");
  put_number(made, 15, 9);
  put_bytes(made, 17, "");
  put_bytes(made, 17, dense);
  put_bytes(made, 18, packed({1, 2}));
  put_number(made, 19, 1);
  put_bytes(made, 20, packed({0, 1}));
  return made;
}

std::string message_of(const std::string& header, const std::vector<std::string>& tensors) {
  std::vector<std::size_t> sizes;
  for (const std::string& one : tensors) sizes.push_back(one.size());
  const Layout layout(header.size(), sizes);
  std::string made(layout.size(), '\xff');
  auto* to = reinterpret_cast<std::byte*>(made.data());
  layout.write(to, header);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::memcpy(to + layout.begin(i), tensors[i].data(), tensors[i].size());
  }
  return made;
}

// Whatever the bytes are, what is found lies inside them.
void check_inside(const std::string& bytes) {
  const Exact exact(bytes);
  Message message;
  if (!read_message(exact.data.get(), exact.size, message)) return;
  unsigned sum = 0;
  for (const Extent& one : message.tensors) {
    CHECK(one.size <= exact.size);
    CHECK(one.data >= exact.data.get() && one.data + one.size <= exact.data.get() + exact.size);
    for (std::size_t i = 0; i < one.size; ++i) sum += static_cast<unsigned>(one.data[i]);
  }
  CHECK(message.header.size() <= exact.size);
  PullHeader pull;
  PushHeader push;
  read_header(message.header, pull);
  read_header(message.header, push);
  CHECK(sum <= 255 * exact.size);
}

}  // namespace

TEST(plane_message_round_trip) {
  for (std::size_t header_size = 0; header_size < 300; ++header_size) {
    const std::string header(header_size, 'h');
    std::vector<std::string> tensors;
    for (const std::size_t size : {0, 1, 8, 3, 127, 128, 0, 5000}) tensors.emplace_back(size, static_cast<char>(size));
    const std::string bytes = message_of(header, tensors);
    const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
    Message message;
    CHECK(read_message(data, bytes.size(), message));
    CHECK(message.header == header);
    CHECK(message.tensors.size() == tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Extent& one = message.tensors[i];
      CHECK((one.data - data) % 8 == 0);
      CHECK(std::string(reinterpret_cast<const char*>(one.data), one.size) == tensors[i]);
    }
  }
}

TEST(plane_pull_header) {
  PullHeader header;
  CHECK(read_header(pull_header(), header));
  CHECK(header.is_plain && header.dense && !header.kept);
  CHECK(header.caller.worker == 7 && header.caller.incarnation == 1ull << 60 && header.caller.instance == 300);
  CHECK(header.version == 12345 && header.timeout_ms == 600000);
  CHECK((header.tables == std::vector<std::uint32_t>{0, 2, 300}));
  CHECK((header.only_read == std::vector<std::uint32_t>{1, 0, 1}));
  CHECK((header.formats == std::vector<std::uint32_t>{0, 3, 1}) && header.dense_format == 2);
}

TEST(plane_push_header) {
  PushHeader header;
  CHECK(read_header(push_header(), header));
  CHECK(header.is_plain && header.want_dense && header.want_rows && !header.is_delta && !header.is_pass);
  CHECK(header.sequence == 41 && header.step == 42 && header.pulled_version == 43 && header.timeout_ms == 1000);
  CHECK(header.tables.size() == 1 && header.tables[0].table == 2 && header.tables[0].lr == 0.125);
  CHECK(header.tables[0].has_counts && header.tables[0].has_clicks);
  CHECK((header.dense_lrs == std::vector<double>{0.5, 0.25}));
  CHECK((header.dense_groups == std::vector<std::uint32_t>{0, 3}));
  CHECK((header.pull_tables == std::vector<std::uint32_t>{1, 0}));
  CHECK(header.tables[0].format == 1 && header.tables[0].row_format == 3);
  CHECK((header.pull_formats == std::vector<std::uint32_t>{1, 2}) && header.dense_format == 1);
  CHECK(header.dense.size() == 2 && header.dense[0].format == 0 && !header.dense[0].is_sparse);
  CHECK(header.dense[1].format == 2 && header.dense[1].is_sparse);
}

TEST(plane_unknown_fields_are_for_python) {
  for (const unsigned field : {10u, 99u, 1000000u}) {
    std::string bytes = pull_header();
    put_number(bytes, field, 1);
    PullHeader header;
    CHECK(read_header(bytes, header) && !header.is_plain);
  }
  std::string bytes = push_header();
  put_bytes(bytes, 21, "x");
  PushHeader header;
  CHECK(read_header(bytes, header) && !header.is_plain);
}

TEST(plane_meet_header) {
  std::string caller, bytes;
  put_number(caller, 1, 7);
  put_number(caller, 2, 9);
  put_bytes(bytes, 1, caller);
  put_bytes(bytes, 2, "a meeting");
  put_number(bytes, 99, 1);
  MeetHeader header;
  CHECK(read_header(bytes, header) && header.caller.worker == 7 && header.caller.incarnation == 9);
  bytes.clear();
  put_number(bytes, 1, 5);
  CHECK(!read_header(bytes, header));
  CHECK(!read_header("\x0a\x7f", header));
}

TEST(plane_wrong_kinds_are_refused) {
  PullHeader header;
  std::string bytes;
  put_number(bytes, 1, 5);  // a caller is no number
  CHECK(!read_header(bytes, header));
  bytes.clear();
  put_bytes(bytes, 3, packed({1ull << 40}));  // an index beyond 32 bits
  CHECK(!read_header(bytes, header));
  bytes.clear();
  put_bytes(bytes, 3, "\x80");  // half a number
  CHECK(!read_header(bytes, header));
  bytes.clear();
  put_number(bytes, 9, ~0ull);  // a format below zero
  CHECK(!read_header(bytes, header));
}

TEST(plane_what_is_no_message) {
  const auto read = [](const std::string& bytes, Message& message) {
    std::string why;
    const bool is_read = read_message(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), message, &why);
    CHECK(is_read == why.empty());
    return why;
  };
  Message message;
  CHECK(read(message_of("a", {}) + message_of("b", {}), message).empty() && message.header == "ab");
  CHECK(read("\x12\x05"
             "ab",
             message) == "its 4 bytes end inside a field");
  CHECK(read("\x12" + std::string(10, '\xff'), message) == "a number of more than 10 bytes");
  CHECK(read(std::string(6, '\x80'), message) == "a number of more than 5 bytes");
  CHECK(read(std::string("\x02\0", 2), message) == "field number 0");
  CHECK(read("\x1b\x1c", message) == "field 3 has wire type 3");
}

TEST(plane_too_many_fields) {
  std::string bytes;
  for (std::size_t i = 0; i <= kMaxFields; ++i) put_bytes(bytes, 2, "");
  Message message;
  CHECK(!read_message(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), message));
}

TEST(plane_every_prefix_and_every_byte) {
  for (const std::string& header : {pull_header(), push_header()}) {
    const std::string good = message_of(header, {std::string(24, 'k'), std::string(17, 'g'), "", "x"});
    for (std::size_t size = 0; size <= good.size(); ++size) check_inside(good.substr(0, size));
    for (std::size_t at = 0; at < good.size(); ++at) {
      std::string bad = good;
      for (int value = 0; value < 256; ++value) {
        bad[at] = static_cast<char>(value);
        check_inside(bad);
      }
    }
  }
}

TEST(plane_random_bytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes(random() % 60, '\0');
    for (char& one : bytes) one = static_cast<char>(random() % 3 == 0 ? random() : random() % 24);
    check_inside(bytes);
  }
  // Sizes that would wrap around.
  for (const std::uint64_t size : {~0ull, ~0ull - 1, 1ull << 63, 1ull << 32, 0x7fffffffull}) {
    std::string bytes;
    put(bytes, 2 << 3 | 2);
    put(bytes, size);
    check_inside(bytes + "abc");
  }
}

TEST(plane_reply_header) {
  CHECK(pull_reply_header(0).empty());
  for (const std::uint64_t version : {1ull, 127ull, 128ull, 1ull << 40}) {
    std::string wanted;
    put_number(wanted, 1, version);
    CHECK(pull_reply_header(version) == wanted);
  }
}
