// Several runs as one: each key once, in the order of hashes, as its newest run has it.
#pragma once

#include <memory>
#include <vector>

#include "disk/run.h"

namespace fleet::disk {

using Runs = std::vector<std::shared_ptr<const Run>>;  // the newest first

class Scan {
 public:
  explicit Scan(const Runs& runs);

  // The present record, or null at the end.
  const std::byte* record() const { return heads_.empty() ? nullptr : readers_[heads_[0].run].record(); }
  std::uint64_t hash() const { return heads_[0].hash; }
  void next();

 private:
  struct Head {
    std::uint64_t hash;
    std::uint32_t run;

    bool operator<(const Head& other) const { return hash != other.hash ? hash < other.hash : run < other.run; }
  };

  void sink();
  void move_on();

  std::vector<RunReader> readers_;
  std::vector<Head> heads_;  // a heap, the smallest first
};

// All records of some runs.
std::size_t total_size(const Runs& runs);

// Writes the newest records of some runs into one; keep(record) may change one, or say that it goes. Null if none
// stays. The caller may throw from `keep` to give up.
template <class Keep>
std::shared_ptr<const Run> merge(const Runs& runs, std::string path, std::uint32_t level, Keep&& keep) {
  const Shape shape = runs.front()->shape();
  RunWriter writer(std::move(path), shape, total_size(runs), level);
  std::vector<std::byte> copy(shape.record_bytes);
  std::size_t size = 0;
  for (Scan scan(runs); scan.record() != nullptr; scan.next()) {
    std::memcpy(copy.data(), scan.record(), shape.record_bytes);
    if (!keep(copy.data())) continue;
    std::memcpy(writer.add(scan.hash()), copy.data(), shape.record_bytes);
    ++size;
  }
  return size == 0 ? nullptr : writer.finish();
}

}  // namespace fleet::disk
