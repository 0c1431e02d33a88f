#include "plane/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <new>
#include <system_error>
#include <utility>

namespace fleet::plane {

bool Budget::hold(std::size_t bytes, std::size_t own) {
  const std::size_t before = held_.fetch_add(bytes);
  if (before <= own || before + bytes <= most_) return true;
  held_ -= bytes;
  return false;
}

std::shared_ptr<Memory> Memory::of(std::size_t size) {
  const std::size_t whole = (size + 63) / 64 * 64;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(64, whole == 0 ? 64 : whole));
  if (data == nullptr) throw std::bad_alloc();
  return std::shared_ptr<Memory>(new Memory(data, size, -1, false));
}

std::shared_ptr<Memory> Memory::counted(std::shared_ptr<Budget> budget, std::size_t size, std::size_t bytes,
                                        std::size_t own) {
  if (!budget->hold(bytes, own)) return nullptr;
  try {
    auto made = of(size);
    made->budget_ = std::move(budget);
    made->held_ = bytes;
    return made;
  } catch (const std::bad_alloc&) {
    budget->let_go(bytes);
    throw;
  }
}

void Memory::give_room_back() {
  const std::size_t held = held_.exchange(0);
  if (held != 0) budget_->let_go(held);
}

std::shared_ptr<Memory> Memory::shared(std::size_t size) {
  const std::size_t whole = (size + 4095) / 4096 * 4096;
  const int file = memfd_create("fleet-block", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const auto refused = [&](const char* what) {
    const int error = errno;
    if (file >= 0) close(file);
    throw std::system_error(error, std::generic_category(), what);
  };
  if (file < 0) refused("memfd_create");
  if (ftruncate(file, static_cast<off_t>(whole)) != 0) refused("ftruncate");
  if (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) refused("F_ADD_SEALS");
  void* data = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) refused("mmap");
  return std::shared_ptr<Memory>(new Memory(static_cast<std::byte*>(data), whole, file, true));
}

std::shared_ptr<Memory> Memory::mapped(int file, std::size_t size) {
  struct stat about{};
  const int seals = fcntl(file, F_GET_SEALS);
  void* data = MAP_FAILED;
  // A file that shrinks takes the memory away while it is read.
  if (seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && size != 0 && fstat(file, &about) == 0 &&
      static_cast<std::size_t>(about.st_size) == size) {
    data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  if (data == MAP_FAILED) return nullptr;
  return std::shared_ptr<Memory>(new Memory(static_cast<std::byte*>(data), size, -1, true));
}

Memory::~Memory() {
  if (!is_mapped_) {
    std::free(data_);
    give_room_back();
    return;
  }
  munmap(data_, size_);
  if (file_ >= 0) close(file_);
}

}  // namespace fleet::plane
