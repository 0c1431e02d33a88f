// Messages of proto/ps.proto as they lie in memory: where the header is, and where each tensor.
//
// Only the calls that training consists of, Pull and Push, are read here, and of a Meet who calls; a header with a
// field that is not known here is not `is_plain`, and is for Python to read. Nothing is trusted: whatever does not fit
// is refused, not followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fleet::plane {

struct Extent {
  const std::byte* data = nullptr;
  std::size_t size = 0;
};

struct Message {
  std::string header;  // a copy: what others can write to is read once
  std::vector<Extent> tensors;
};

constexpr std::size_t kMaxMessage = std::size_t{1} << 30;
constexpr std::size_t kMaxFields = std::size_t{1} << 17;

// False if the bytes are no message; then `why`, if it is given, says what is wrong.
bool read_message(const std::byte* data, std::size_t size, Message& message, std::string* why = nullptr);

struct Caller {
  std::uint32_t worker = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t instance = 0;
  bool is_traced = false;
  std::uint64_t term = 0;
};

struct PullHeader {
  Caller caller;
  std::uint64_t version = 0;
  std::vector<std::uint32_t> tables;
  std::vector<std::uint32_t> only_read;
  std::vector<std::uint32_t> formats;
  std::uint32_t dense_format = 0;
  bool dense = false;
  bool kept = false;
  std::uint32_t timeout_ms = 0;
  bool is_plain = true;
};

struct PushHeader {
  struct Table {
    std::uint32_t table = 0;
    double lr = 0;
    bool has_counts = false;
    bool has_clicks = false;
    std::uint32_t format = 0;
    std::uint32_t row_format = 0;
  };
  struct Dense {
    std::uint32_t format = 0;
    bool is_sparse = false;
  };
  Caller caller;
  std::uint64_t sequence = 0;
  std::uint64_t step = 0;
  std::uint64_t pulled_version = 0;
  std::vector<Table> tables;
  std::vector<double> dense_lrs;
  std::vector<std::uint32_t> dense_groups;
  std::vector<std::uint32_t> pull_tables;
  std::vector<std::uint32_t> pull_only_read;
  std::vector<std::uint32_t> pull_formats;
  std::vector<Dense> dense;
  std::vector<std::uint32_t> absent;
  std::uint32_t dense_format = 0;
  bool want_dense = false;
  bool want_rows = false;
  bool is_delta = false;
  bool is_pass = false;
  std::uint32_t timeout_ms = 0;
  bool is_plain = true;
};

// Of a meeting of workers, which Python holds.
struct MeetHeader {
  Caller caller;
};

// False if the bytes are no such header.
bool read_header(const std::string& bytes, MeetHeader& header);
bool read_header(const std::string& bytes, PullHeader& header);
bool read_header(const std::string& bytes, PushHeader& header);

// The header of a PullReply that says nothing but the version.
std::string pull_reply_header(std::uint64_t version);

// How a message is laid out: tensors begin at multiples of 8, as fleet.ps.wire.messages writes them.
class Layout {
 public:
  Layout(std::size_t header_size, const std::vector<std::size_t>& tensor_sizes);

  std::size_t size() const { return size_; }
  std::size_t begin(std::size_t tensor) const { return begins_[tensor]; }
  // Writes everything but what is inside the tensors.
  void write(std::byte* to, const std::string& header) const;

 private:
  std::size_t header_size_;
  std::vector<std::size_t> sizes_, begins_;
  std::size_t size_;
};

}  // namespace fleet::plane
