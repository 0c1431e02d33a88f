// The value of a row that nobody has pushed yet: a pure function of (seed, table, key), so that every server, and every
// arrangement of servers, gives the same. One small file for each initialiser, one line for each in initializer.cc.
//
// A contract like placement: neither the draws nor what is made of them may ever change. The tests pin values. The same
// bits come out on every machine: integers, + - * / and sqrt only. Value i of a row does not depend on its width.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rule/args.h"

namespace fleet {

class Initializer {
 public:
  virtual ~Initializer() = default;

  // Writes the row of `key`. `seed` comes from table_seed. Thread-safe.
  virtual void fill(std::uint64_t seed, std::int64_t key, float* out, std::size_t width) const = 0;
};

// The job's seed, mixed with the table's name: tables with the same keys begin with different rows.
std::uint64_t table_seed(std::uint64_t seed, const std::string& table);

// Throws std::invalid_argument, in one line, for an unknown name and for an unknown, missing or bad argument.
std::unique_ptr<Initializer> make_initializer(const std::string& name, const Args& args);

// Every name that make_initializer knows, sorted.
std::vector<std::string> initializer_names();

}  // namespace fleet
