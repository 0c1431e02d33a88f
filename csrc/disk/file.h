// Files that are read and written past the system's cache: what a table may take of memory is what it says, and no
// more.
//
// Where a file system has no such files, ordinary ones are used. Offsets, sizes and buffers are multiples of kPage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace fleet::disk {

constexpr std::size_t kPage = 4096;

inline std::size_t round_up(std::size_t bytes, std::size_t unit = kPage) { return (bytes + unit - 1) / unit * unit; }

// What the system said about a file; `code` is errno, or 0 for a file that is not what was written.
class DiskError : public std::runtime_error {
 public:
  DiskError(const std::string& text, int code) : std::runtime_error(text), code(code) {}
  const int code;
};

struct Free {
  void operator()(std::byte* data) const { std::free(data); }
};

// Memory that begins at a page.
using Buffer = std::unique_ptr<std::byte[], Free>;

Buffer make_buffer(std::size_t bytes);

class File {
 public:
  // A new file, to be written; DiskError if there is one.
  static File create(const std::string& path);
  // To be read. `known_as`: what errors call it.
  static File open(const std::string& path, const std::string& known_as = "");

  File(File&& other) noexcept
      : path_(std::move(other.path_)), known_as_(std::move(other.known_as_)), descriptor_(other.descriptor_) {
    other.descriptor_ = -1;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  File& operator=(File&&) = delete;
  ~File();

  void write(const std::byte* data, std::size_t bytes, std::uint64_t offset);
  // All of it, or DiskError.
  void read(std::byte* data, std::size_t bytes, std::uint64_t offset) const;
  // Returns when the disk has everything.
  void sync() const;

  // Gives it, whatever has become of its name, a second one; where that cannot be (another file system), copies it.
  void link_to(const std::string& to) const;

  // The same under the name that it was given meanwhile.
  File renamed(std::string path) && {
    File same(std::move(*this));
    same.path_ = std::move(path);
    return same;
  }

  const std::string& path() const { return path_; }
  const std::string& known_as() const { return known_as_.empty() ? path_ : known_as_; }
  int descriptor() const { return descriptor_; }

 private:
  File(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_, known_as_;
  int descriptor_;
};

// The error for what the system has just refused.
DiskError failure(const std::string& what, const std::string& path, int code);

// Gives a file a second name; where that cannot be (another file system), copies it.
void link_or_copy(const std::string& from, const std::string& to);

}  // namespace fleet::disk
