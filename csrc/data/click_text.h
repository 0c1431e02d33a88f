// What the text of a made-up click becomes when it is read: the same ids and numbers that a reader of files makes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fleet::data {

// Writes the eight hexadecimal digits of a code.
void write_code(std::uint32_t code, char* out);

// What goes into the hash of slot "C1" (0) to "C26" (25), and the id of a code there.
std::uint64_t click_slot_seed(std::size_t slot);
std::int64_t code_id(std::uint64_t seed, std::uint32_t code);

// sign(x) log(1 + |x|).
float dense_number(std::int32_t number);

}  // namespace fleet::data
