#include "disk/bloom.h"

#include <cstring>

namespace fleet::disk {

Bloom::Bloom(std::size_t num_keys) : bits_(make_buffer(bytes_for(num_keys))), bytes_(bytes_for(num_keys)) {
  std::memset(bits_.get(), 0, bytes_);
}

}  // namespace fleet::disk
