#include "table/table.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "table/cold.h"

namespace fleet {

Dtype dtype_of(const std::string& name) {
  if (name == "float32") return Dtype::kFloat32;
  if (name == "float16") return Dtype::kFloat16;
  if (name == "bfloat16") return Dtype::kBfloat16;
  throw std::invalid_argument("dtype must be float32, float16 or bfloat16, got '" + name + "'");
}

Table::Shard::Shard(Arena& arena, const Format& format, bool has_clicks)
    : rows(arena, format.row_bytes(), has_clicks), waiting_marks(arena, 0, has_clicks) {}

Table::Shard::~Shard() = default;

Table::Table(TableOptions options)
    : options_(std::move(options)),
      format_(options_.width, *options_.rule, options_.dtype),
      seed_(table_seed(options_.seed, options_.name)) {
  if (options_.width == 0) throw std::invalid_argument("table '" + options_.name + "': width must be >= 1");
  if (options_.width > kMaxWidth) {
    throw std::invalid_argument("table '" + options_.name + "': width must be <= " + std::to_string(kMaxWidth));
  }
  if (options_.has_bounds && !(options_.low < options_.high)) {
    throw std::invalid_argument("table '" + options_.name + "': the lower bound must be below the upper one");
  }
  if (options_.has_max_norm && !(options_.max_norm > 0 && std::isfinite(options_.max_norm))) {
    throw std::invalid_argument("table '" + options_.name + "': max_norm must be finite and > 0");
  }
  if (!(options_.norm_type > 0)) {
    throw std::invalid_argument("table '" + options_.name + "': norm_type must be > 0");
  }
  // Clamped values must not leave the bounds again when they are rounded.
  for (float* bound : {&options_.low, &options_.high}) {
    const bool down = bound == &options_.high;
    if (options_.dtype == Dtype::kFloat16) *bound = within<Float16>(*bound, down);
    if (options_.dtype == Dtype::kBfloat16) *bound = within<Bfloat16>(*bound, down);
  }
  if (options_.low > options_.high) {
    throw std::invalid_argument("table '" + options_.name + "': no number of its dtype lies between the bounds");
  }
  for (std::size_t s = 0; s < kShards; ++s) {
    shards_.push_back(std::make_unique<Shard>(arena_, format_, options_.entry.has_clicks()));
  }
  if (options_.memory_bytes == 0) return;
  if (options_.max_bytes != 0) {
    throw std::invalid_argument("table '" + options_.name +
                                "': max_bytes deletes rows and memory keeps them on a disk; " + "give one of them");
  }
  if (options_.folder.empty()) throw std::invalid_argument("table '" + options_.name + "': memory needs a folder");
  for (const auto& shard : shards_) shard->cold = std::make_unique<ColdShard>();
  tier_ = std::make_unique<Tier>(options_, disk::Shape(format_.row_bytes(), options_.entry.has_clicks()),
                                 [this](std::size_t s) { merge(s, *shards_[s]); });
}

Table::~Table() {
  if (tier_ != nullptr) tier_->stop();  // its thread uses all that is here
}

std::size_t Table::size() const {
  std::size_t total = 0;
  for (const auto& shard : shards_) {
    const std::lock_guard<std::mutex> lock(shard->mutex);
    total += shard->index.size() + (shard->cold == nullptr ? 0 : shard->cold->num_cold);
  }
  return total;
}

std::size_t Table::num_waiting() const {
  std::size_t total = 0;
  for (const auto& shard : shards_) {
    const std::lock_guard<std::mutex> lock(shard->mutex);
    total += shard->waiting.size();
  }
  return total;
}

std::size_t Table::bytes() const {
  std::size_t total = 0;
  for (const auto& shard : shards_) {
    const std::lock_guard<std::mutex> lock(shard->mutex);
    total += shard->bytes();
    if (shard->cold != nullptr) total += shard->cold->index_bytes + shard->cold->flags.size();
  }
  return total;
}

std::size_t Table::all_bytes() const {
  std::size_t total = 0;
  for (const auto& shard : shards_) {
    const std::lock_guard<std::mutex> lock(shard->mutex);
    total += shard->bytes();
    if (shard->cold != nullptr) total += shard->cold->num_cold * (shard->rows.bytes_each() + Index::kBytesEach);
  }
  return total;
}

}  // namespace fleet
