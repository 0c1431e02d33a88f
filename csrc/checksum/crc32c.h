// CRC-32C (Castagnoli), as iSCSI, ext4 and SSE 4.2 have it: what a journal or a file was written with must be what is
// read. A contract on disk: the tests pin values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fleet {

// The checksum of `n` bytes that follow bytes whose checksum is `start`; 0 where nothing comes before them. Uses the
// processor's own instruction where it has one.
std::uint32_t crc32c(const void* data, std::size_t n, std::uint32_t start = 0);

// The same from tables, on any processor.
std::uint32_t crc32c_by_table(const void* data, std::size_t n, std::uint32_t start = 0);

}  // namespace fleet
