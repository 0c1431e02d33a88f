#include "serve/base.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "checksum/crc32c.h"
#include "disk/file.h"
#include "keys/array.h"
#include "serve/head.h"

namespace fleet::serve {

namespace {

struct Closed {
  explicit Closed(int descriptor) : descriptor(descriptor) {}
  ~Closed() { ::close(descriptor); }
  const int descriptor;
};

constexpr std::size_t kLargePage = std::size_t{2} << 20;

void read_all(int descriptor, const std::string& path, std::byte* data, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = ::pread(descriptor, data + done, bytes - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw disk::failure("cannot be read", path, got < 0 ? errno : EIO);
    done += static_cast<std::size_t>(got);
  }
}

// Whether starts lead to keys, and both are as they were written. A lookup follows them without looking.
bool are_whole(const Head& head, const std::byte* data, bool with_rows) {
  const auto* starts = reinterpret_cast<const std::uint32_t*>(data + disk::kPage);
  const std::uint32_t* last = starts + head.num_buckets;
  if (*starts != 0 || *last != head.size || !std::is_sorted(starts, last + 1)) return false;
  return crc32c(starts, (head.num_buckets + 1) * sizeof(std::uint32_t)) == head.starts_sum &&
         crc32c(data + head.keys_at, head.size * sizeof(std::int64_t)) == head.keys_sum &&
         (!with_rows || crc32c(data + head.rows_at, head.end_at - head.rows_at) == head.rows_sum);
}

}  // namespace

std::shared_ptr<const Base> Base::open(const std::string& path, bool in_memory) {
  const Closed file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.descriptor < 0) throw disk::failure("cannot be read", path, errno);
  struct stat status{};
  if (::fstat(file.descriptor, &status) != 0) throw disk::failure("cannot be read", path, errno);
  Head head{};
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size >= sizeof(Head)) read_all(file.descriptor, path, reinterpret_cast<std::byte*>(&head), sizeof(Head));
  if (std::memcmp(head.magic, kMagic, sizeof(kMagic)) != 0 || head.checksum != checksum_of(head) ||
      head.end_at != size) {
    throw disk::DiskError(path + " is no base of fleet-serve, or not a whole one; remove it, and it is made again", 0);
  }
  std::shared_ptr<Base> base(new Base());
  base->bytes_ = base->mapped_bytes_ = static_cast<std::size_t>(size);
  if (in_memory) {
    base->mapped_bytes_ = disk::round_up(base->bytes_, kLargePage) + kLargePage;
    base->mapped_ = ::mmap(nullptr, base->mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  } else {
    base->mapped_ = ::mmap(nullptr, base->bytes_, PROT_READ, MAP_SHARED, file.descriptor, 0);
  }
  if (base->mapped_ == MAP_FAILED) {
    base->mapped_ = nullptr;
    throw disk::failure("cannot be mapped", path, errno);
  }
  auto* data = static_cast<std::byte*>(base->mapped_);
  if (in_memory) {
    data += (kLargePage - reinterpret_cast<std::uintptr_t>(data) % kLargePage) % kLargePage;
    ::madvise(data, base->bytes_, MADV_HUGEPAGE);
    read_all(file.descriptor, path, data, base->bytes_);
  } else {
    ::madvise(data, base->bytes_, MADV_RANDOM);  // the next row in the file is not the next that is asked for
    ::madvise(data, static_cast<std::size_t>(head.rows_at), MADV_WILLNEED);
  }
  if (!are_whole(head, data, in_memory)) {
    throw disk::DiskError(path + " is a damaged base of fleet-serve; remove it, and it is made again", 0);
  }
  base->width_ = static_cast<std::size_t>(head.width);
  base->size_ = static_cast<std::size_t>(head.size);
  base->num_buckets_ = static_cast<std::size_t>(head.num_buckets);
  base->format_ = static_cast<WireFormat>(head.format);
  base->row_bytes_ = fleet::row_bytes(base->format_, base->width_);
  base->starts_ = reinterpret_cast<const std::uint32_t*>(data + disk::kPage);
  base->keys_ = reinterpret_cast<const std::int64_t*>(data + head.keys_at);
  base->rows_ = data + head.rows_at;
  return base;
}

Base::~Base() {
  if (mapped_ != nullptr) ::munmap(mapped_, mapped_bytes_);
}

void Base::read(std::uint32_t row, float* out) const {
  const std::byte* data = rows_ + row * row_bytes_;
  if (format_ == WireFormat::kFloat32) {
    std::memcpy(out, data, row_bytes_);
  } else {
    decode_rows(format_, reinterpret_cast<const std::uint8_t*>(data), 1, width_, out);
  }
}

}  // namespace fleet::serve
