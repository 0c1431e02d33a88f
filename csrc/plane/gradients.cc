#include "plane/gradients.h"

#include <stdexcept>

#include "compress/topk.h"
#include "keys/scratch.h"
#include "table/finite.h"

namespace fleet::plane {

namespace {

const std::uint8_t* bytes_of(const Extent& tensor) { return reinterpret_cast<const std::uint8_t*>(tensor.data); }

}  // namespace

bool read_format(std::uint32_t number, WireFormat& format) {
  if (number >= kNumFormats) return false;
  format = static_cast<WireFormat>(number);
  return true;
}

bool Floats::take_rows(const Extent& tensor, WireFormat format, std::size_t n, std::size_t width) {
  size_ = n * width;
  width_ = width;
  format_ = format;
  if (format == WireFormat::kFloat32) return (values_ = items<float>(tensor, size_)) != nullptr;
  bytes_ = bytes_of(tensor);
  return tensor.size == n * row_bytes(format, width);
}

bool Floats::take_vector(const Extent& tensor, WireFormat format, std::size_t size) {
  size_ = size;
  format_ = format;
  if (format == WireFormat::kFloat32) return (values_ = items<float>(tensor, size)) != nullptr;
  bytes_ = bytes_of(tensor);
  return tensor.size == vector_bytes(format, size);
}

bool Floats::take_some(const Extent& places, const Extent& tensor, WireFormat format, std::size_t size) {
  size_ = size;
  format_ = format;
  bytes_ = bytes_of(tensor);
  num_places_ = places.size / sizeof(std::int32_t);
  places_ = items<std::int32_t>(places, num_places_);
  if (places_ == nullptr || tensor.size != vector_bytes(format, num_places_)) return false;
  std::int64_t before = -1;
  for (std::size_t i = 0; i < num_places_; ++i) {
    if (places_[i] <= before || static_cast<std::size_t>(places_[i]) >= size) return false;
    before = places_[i];
  }
  return true;
}

const float* Floats::values() const {
  if (values_ == nullptr) decode();
  return values_;
}

float Floats::largest() const {
  if (largest_ < 0) largest_ = fleet::largest(values(), size_);
  return largest_;
}

void Floats::decode() const {
  Array<float> made(size_);
  if (places_ != nullptr) {
    Scratch<float> some(num_places_);
    decode_vector(format_, bytes_, num_places_, some.data());
    if (!spread(places_, some.data(), num_places_, made.data(), size_)) {
      throw std::runtime_error("it has changed while it was read");
    }
  } else if (width_ != 0) {
    decode_rows(format_, bytes_, size_ / width_, width_, made.data());
  } else {
    decode_vector(format_, bytes_, size_, made.data());
  }
  own_ = std::move(made);
  values_ = own_.data();
}

std::size_t Gradients::decoded_bytes() const {
  std::size_t total = 0;
  for (const Part& part : parts) total += part.grads.decoded_bytes();
  for (const Group& group : dense) total += group.grads.decoded_bytes();
  return total;
}

void Gradients::decode() const {
  for (const Part& part : parts) part.grads.values();
  for (const Group& group : dense) group.grads.values();
}

}  // namespace fleet::plane
