// A run: rows in one file that never changes, ordered by the hash of their keys.
//
//   page 0   what the file is: an id, sizes, counts, checksums
//   blocks   of one page (of several, where a record is longer): a checksum, in which the id and the place of the block
//            are, too; the number of records, the records
//   fences   the hash that each block begins with
//   filter   the bits of a Bloom
//
// A record is key, mark, clicks where the table has them, and the row as memory has it. Fences and filter are kept in
// memory, which is 1.7 bytes for each row of 80; so a row is found with one read, and a key that is not there mostly
// with none.
#pragma once

#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "disk/bloom.h"
#include "disk/file.h"
#include "keys/hash.h"

namespace fleet::disk {

// How long records are and how many a block has.
struct Shape {
  Shape(std::size_t row_bytes, bool has_clicks)
      : has_clicks(has_clicks),
        row_at(has_clicks ? 24 : 16),
        record_bytes(row_at + row_bytes),
        block_bytes(round_up(kBlockHead + record_bytes)),
        per_block((block_bytes - kBlockHead) / record_bytes) {}

  static constexpr std::size_t kBlockHead = 8;

  bool has_clicks;
  std::size_t row_at, record_bytes, block_bytes, per_block;
};

inline std::int64_t key_of(const std::byte* record) {
  std::int64_t key;
  std::memcpy(&key, record, sizeof(key));
  return key;
}

inline std::uint32_t step_of(const std::byte* record) {
  std::uint32_t step;
  std::memcpy(&step, record + 12, sizeof(step));
  return step;
}

class Run {
 public:
  // DiskError if the file is damaged, has records of another shape, or `wanted` is not 0 and it is another run.
  // `known_as` is what errors call it, where its own name says nothing to people.
  static std::shared_ptr<Run> open(const std::string& path, const Shape& shape, std::uint64_t wanted = 0,
                                   const std::string& known_as = "");
  // Whatever shape its records have.
  static std::shared_ptr<Run> open(const std::string& path, std::uint64_t wanted);

  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  // The block that has a key of this hash if the run has one; kNone if it has none.
  std::size_t block_of(std::uint64_t hash) const;
  bool may_hold(std::uint64_t hash) const { return bloom_.may_hold(hash); }
  void prefetch(std::uint64_t hash) const { bloom_.prefetch(hash); }

  std::uint64_t offset_of(std::size_t block) const { return kPage + block * shape_.block_bytes; }
  // The records of a block that was read; DiskError if they are not what was written.
  std::size_t check_block(const std::byte* block, std::size_t number) const;
  // The record of a key in a block that was checked, or null.
  const std::byte* find(const std::byte* block, std::int64_t key) const;

  // Returns when the disk has all of it, so that a loss of power does not matter.
  void sync() const;

  const File& file() const { return file_; }
  std::uint64_t id() const { return id_; }
  const Shape& shape() const { return shape_; }
  std::size_t size() const { return size_; }
  std::size_t num_blocks() const { return fences_.size(); }
  // In memory.
  std::size_t index_bytes() const { return fences_.size() * 8 + bloom_.bytes(); }
  std::uint64_t file_bytes() const { return file_bytes_; }
  std::uint32_t oldest_step() const { return oldest_step_; }
  std::uint32_t newest_step() const { return newest_step_; }
  std::uint32_t level() const { return level_; }

 private:
  friend class RunWriter;
  Run(File file, const Shape& shape) : file_(std::move(file)), shape_(shape) {}
  static std::shared_ptr<Run> open(File file, const Shape* shape, std::uint64_t wanted);

  File file_;
  Shape shape_;
  std::uint64_t id_ = 0;  // 0: of the first version
  std::size_t size_ = 0;
  std::uint64_t file_bytes_ = 0;
  std::uint32_t oldest_step_ = 0, newest_step_ = 0;
  std::uint32_t level_ = 0;  // how often its rows were merged
  std::vector<std::uint64_t> fences_;
  Bloom bloom_;
  mutable std::atomic<bool> is_synced_{false};
};

// What a run is called where others keep it: its name here and its id, so that no other file is taken for it.
std::string name_of(const Run& run);
// The id in a name that `name_of` gave; 0 if it has none.
std::uint64_t id_in(const std::string& name);

// Writes a run; without `finish` there is no file.
class RunWriter {
 public:
  // `most`: no more records will come.
  RunWriter(std::string path, const Shape& shape, std::size_t most, std::uint32_t level);
  ~RunWriter();
  RunWriter(const RunWriter&) = delete;
  RunWriter& operator=(const RunWriter&) = delete;

  // Room for the next record, whose key has a larger hash than all before; to be filled before the next call.
  std::byte* add(std::uint64_t hash);
  // The run. The disk may not have all of it yet: see Run::sync.
  std::shared_ptr<Run> finish();

 private:
  void end_block();
  void write_out();

  std::string path_;
  File file_;
  Shape shape_;
  Buffer buffer_;
  std::size_t capacity_;      // of the buffer
  std::size_t at_ = 0;        // of the buffer: where the present block begins
  std::size_t in_block_ = 0;  // records of the present block
  std::uint64_t offset_ = kPage;
  std::size_t size_ = 0;
  std::uint32_t level_, oldest_step_ = 0xffffffffu, newest_step_ = 0;
  std::uint64_t id_;
  std::vector<std::uint64_t> fences_;
  Bloom bloom_;
  bool is_finished_ = false;
};

// Reads a run from its first record to its last.
class RunReader {
 public:
  explicit RunReader(std::shared_ptr<const Run> run);

  // The present record, or null at the end.
  const std::byte* record() const { return record_; }
  std::uint64_t hash() const { return hash_; }
  void next();

 private:
  void read_on();
  void begin_block();

  std::shared_ptr<const Run> run_;
  Buffer buffer_;
  std::size_t num_buffered_;  // blocks that fit
  std::size_t block_ = 0;     // the next to be read
  const std::byte* at_ = nullptr;
  const std::byte* end_ = nullptr;  // of what was read
  const std::byte* record_ = nullptr;
  std::size_t left_ = 0;  // records of the block after this one
  std::uint64_t hash_ = 0;
};

}  // namespace fleet::disk
