// Rows of a table as arrays by name, on their way to and from files; see _native.pyi for the names.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>

#include "table/table.h"

namespace fleet::bind {

nanobind::dict dump(const Table& table, nanobind::handle first_shard, nanobind::handle last_shard);
std::size_t restore(Table& table, nanobind::handle rows, nanobind::handle server, nanobind::handle num_servers);

}  // namespace fleet::bind
