// Rows of a table as arrays by name, on their way to and from files; see _native.pyi for the names.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <string>
#include <vector>

#include "table/table.h"

namespace fleet::bind {

nanobind::dict dump(const Table& table, nanobind::handle first_shard, nanobind::handle last_shard);
// Those of some keys, and the keys that have none.
nanobind::dict dump_keys(const Table& table, nanobind::handle keys);
// What was noted for a watcher.
nanobind::tuple values_of(const Table& table, nanobind::handle keys);
nanobind::tuple touched(Table& table, nanobind::handle watcher, bool forget);
void touch(Table& table, nanobind::handle watcher, nanobind::handle keys);
void unwatch(Table& table, nanobind::handle watcher);
std::size_t restore(Table& table, nanobind::handle rows, nanobind::handle server, nanobind::handle num_servers);
// Of a table with rows on a disk: its files, and what they lack.
nanobind::tuple seal(const Table& table, nanobind::handle first_shard, nanobind::handle last_shard,
                     const std::string& folder, const std::string& prefix);
std::size_t restore_file(Table& table, const std::string& path, nanobind::handle server, nanobind::handle num_servers);
void attach(Table& table, nanobind::handle shard, nanobind::handle num_keys, const std::vector<std::string>& names,
            const std::string& folder);

}  // namespace fleet::bind
