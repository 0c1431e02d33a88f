#include "disk/ring.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#if defined(__linux__) && __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#endif

namespace fleet::disk {

bool Ring::is_of_this_process() const { return process_ == ::getpid(); }

#if defined(IORING_OFF_SQES) && defined(SYS_io_uring_setup) && defined(IORING_FEAT_RW_CUR_POS)

namespace {

template <class T>
T* at(void* data, unsigned offset) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(data) + offset);
}

}  // namespace

Ring::Ring() : process_(::getpid()) {
  io_uring_params params;
  std::memset(&params, 0, sizeof(params));
  descriptor_ = static_cast<int>(::syscall(SYS_io_uring_setup, kDepth, &params));
  if (descriptor_ < 0) return;
  const auto map = [&](Part& part, std::size_t bytes, off_t offset) {
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor_, offset);
    if (data == MAP_FAILED) return false;
    part = {data, bytes};
    return true;
  };
  const bool is_mapped =
      (params.features & IORING_FEAT_RW_CUR_POS) != 0 &&  // it has plain reads
      map(submissions_, params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING) &&
      map(completions_, params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING) &&
      map(entries_, params.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES);
  if (!is_mapped) {
    close();
    return;
  }
  sq_tail_ = at<unsigned>(submissions_.data, params.sq_off.tail);
  sq_array_ = at<unsigned>(submissions_.data, params.sq_off.array);
  sq_mask_ = *at<unsigned>(submissions_.data, params.sq_off.ring_mask);
  cq_head_ = at<unsigned>(completions_.data, params.cq_off.head);
  cq_tail_ = at<unsigned>(completions_.data, params.cq_off.tail);
  cq_mask_ = *at<unsigned>(completions_.data, params.cq_off.ring_mask);
  cqes_ = at<io_uring_cqe>(completions_.data, params.cq_off.cqes);
}

void Ring::put(const Read& read, std::size_t number) {
  const unsigned tail = *sq_tail_, slot = tail & sq_mask_;
  auto& entry = static_cast<io_uring_sqe*>(entries_.data)[slot];
  std::memset(&entry, 0, sizeof(entry));
  entry.opcode = IORING_OP_READ;
  entry.fd = read.file->descriptor();
  entry.off = read.offset;
  entry.addr = reinterpret_cast<std::uintptr_t>(read.to);
  entry.len = static_cast<std::uint32_t>(read.bytes);
  entry.user_data = number;
  sq_array_[slot] = slot;
  __atomic_store_n(sq_tail_, tail + 1, __ATOMIC_RELEASE);
}

void Ring::read(const Read* reads, std::size_t n) {
  std::size_t num_put = 0, num_done = 0;
  unsigned unsent = 0;
  std::vector<std::size_t> again;  // what came short: said again, or what is wrong with it
  while (num_done < n) {
    for (; num_put < n && num_put - num_done < kDepth; ++num_put, ++unsent) put(reads[num_put], num_put);
    const long sent = ::syscall(SYS_io_uring_enter, descriptor_, unsent, 1u, IORING_ENTER_GETEVENTS, nullptr, 0);
    if (sent < 0 && errno != EINTR && errno != EAGAIN && errno != EBUSY) {
      const int code = errno;
      close();  // what is under way is given up with it
      throw failure("cannot be read", reads[0].file->known_as(), code);
    }
    if (sent > 0) unsent -= static_cast<unsigned>(sent);
    unsigned head = *cq_head_;
    for (const unsigned tail = __atomic_load_n(cq_tail_, __ATOMIC_ACQUIRE); head != tail; ++head, ++num_done) {
      const auto& done = static_cast<const io_uring_cqe*>(cqes_)[head & cq_mask_];
      const Read& read = reads[done.user_data];
      if (done.res < 0 || static_cast<std::size_t>(done.res) != read.bytes) again.push_back(done.user_data);
    }
    __atomic_store_n(cq_head_, head, __ATOMIC_RELEASE);
  }
  for (const std::size_t i : again) reads[i].file->read(reads[i].to, reads[i].bytes, reads[i].offset);
}

#else

Ring::Ring() : process_(::getpid()) {}
void Ring::put(const Read&, std::size_t) {}
void Ring::read(const Read* reads, std::size_t n) { read_many_by_threads(reads, n); }

#endif

void Ring::close() {
  for (Part* part : {&submissions_, &completions_, &entries_}) {
    if (part->data != nullptr) ::munmap(part->data, part->bytes);
    *part = {};
  }
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

Ring::~Ring() { close(); }

}  // namespace fleet::disk
