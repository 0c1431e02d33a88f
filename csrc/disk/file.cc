#include "disk/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace fleet::disk {

namespace {

int open_direct(const std::string& path, int flags) {
  int descriptor = ::open(path.c_str(), flags | O_DIRECT | O_CLOEXEC, 0600);
  if (descriptor < 0 && errno == EINVAL) descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  return descriptor;
}

struct Closed {
  explicit Closed(int descriptor) : descriptor(descriptor) {}
  ~Closed() { ::close(descriptor); }
  const int descriptor;
};

void copy(const std::string& from, const std::string& to) {
  const Closed in(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (in.descriptor < 0) throw failure("cannot be read", from, errno);
  const Closed out(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (out.descriptor < 0) throw failure("cannot be written", to, errno);
  constexpr std::size_t kAtOnce = std::size_t{1} << 20;
  const Buffer buffer = make_buffer(kAtOnce);
  int code = 0;
  while (code == 0) {
    const ssize_t got = ::read(in.descriptor, buffer.get(), kAtOnce);
    if (got == 0) break;
    if (got < 0) code = errno;
    for (ssize_t done = 0; code == 0 && done < got;) {
      const ssize_t put = ::write(out.descriptor, buffer.get() + done, static_cast<std::size_t>(got - done));
      if (put < 0 && errno != EINTR) code = errno;
      if (put > 0) done += put;
    }
  }
  if (code == 0 && ::fdatasync(out.descriptor) != 0) code = errno;
  if (code == 0) return;
  ::unlink(to.c_str());
  throw failure("cannot be copied to " + to, from, code);
}

// Whether a file cannot have a second name where it is wanted.
bool needs_copy(int code) { return code == EXDEV || code == EPERM || code == EMLINK || code == EOPNOTSUPP; }

}  // namespace

DiskError failure(const std::string& what, const std::string& path, int code) {
  return DiskError(path + " " + what + ": " + std::strerror(code), code);
}

Buffer make_buffer(std::size_t bytes) {
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kPage, round_up(bytes)));
  if (data == nullptr) throw std::bad_alloc();
  return Buffer(data);
}

File File::create(const std::string& path) {
  const int descriptor = open_direct(path, O_WRONLY | O_CREAT | O_EXCL);
  if (descriptor < 0) throw failure("cannot be made", path, errno);
  return File(path, descriptor);
}

File File::open(const std::string& path, const std::string& known_as) {
  const int descriptor = open_direct(path, O_RDONLY);
  if (descriptor < 0) throw failure("cannot be read", known_as.empty() ? path : known_as, errno);
  File file(path, descriptor);
  file.known_as_ = known_as;
  return file;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void File::write(const std::byte* data, std::size_t bytes, std::uint64_t offset) {
  while (bytes > 0) {
    const ssize_t put = ::pwrite(descriptor_, data, bytes, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) throw failure("cannot be written", path_, put < 0 ? errno : ENOSPC);
    // What was not taken begins at a page again, or the rest could not be written past the cache.
    const auto done = static_cast<std::size_t>(put) < bytes ? static_cast<std::size_t>(put) / kPage * kPage : bytes;
    if (done == 0) throw failure("cannot be written", path_, ENOSPC);
    data += done;
    offset += done;
    bytes -= done;
  }
}

void File::read(std::byte* data, std::size_t bytes, std::uint64_t offset) const {
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, data, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw failure("cannot be read", known_as(), errno);
    const auto done = static_cast<std::size_t>(got) < bytes ? static_cast<std::size_t>(got) / kPage * kPage : bytes;
    if (done == 0) throw DiskError(known_as() + " is damaged: it ends too early; begin anew from a checkpoint", 0);
    data += done;
    offset += done;
    bytes -= done;
  }
}

void File::sync() const {
  if (::fdatasync(descriptor_) != 0) throw failure("cannot be written", path_, errno);
}

void File::link_to(const std::string& to) const {
  const std::string here = "/proc/self/fd/" + std::to_string(descriptor_);
  if (::linkat(AT_FDCWD, here.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) == 0) return;
  if (needs_copy(errno) || errno == ENOENT) return copy(here, to);  // ENOENT: all of its names are gone
  throw failure("cannot be linked to " + to, path_, errno);
}

void link_or_copy(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) == 0) return;
  if (needs_copy(errno)) return copy(from, to);
  throw failure("cannot be linked to " + to, from, errno);
}

}  // namespace fleet::disk
