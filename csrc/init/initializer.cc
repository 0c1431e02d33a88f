#include "init/initializer.h"

#include <stdexcept>

#include "keys/hash.h"

namespace fleet {

// Each reads its arguments; make_initializer then complains about what it did not ask for.
std::unique_ptr<Initializer> make_constant(Arguments& args);
std::unique_ptr<Initializer> make_normal(Arguments& args);
std::unique_ptr<Initializer> make_truncated_normal(Arguments& args);
std::unique_ptr<Initializer> make_uniform(Arguments& args);

namespace {

struct Known {
  const char* name;
  std::unique_ptr<Initializer> (*make)(Arguments&);
};

constexpr Known kInitializers[] = {
    {"constant", make_constant},
    {"normal", make_normal},
    {"truncated_normal", make_truncated_normal},
    {"uniform", make_uniform},
};

}  // namespace

std::vector<std::string> initializer_names() {
  std::vector<std::string> names;
  for (const Known& initializer : kInitializers) names.emplace_back(initializer.name);
  return names;
}

std::uint64_t table_seed(std::uint64_t seed, const std::string& table) {
  std::uint64_t h = mix64(static_cast<std::int64_t>(seed));
  for (const char c : table) h = mix64(static_cast<std::int64_t>(h ^ static_cast<unsigned char>(c)));
  return h;
}

std::unique_ptr<Initializer> make_initializer(const std::string& name, const Args& args) {
  for (const Known& known : kInitializers) {
    if (name != known.name) continue;
    Arguments arguments("initializer " + name, args);
    std::unique_ptr<Initializer> initializer = known.make(arguments);
    arguments.check();
    return initializer;
  }
  throw std::invalid_argument("unknown initializer " + quoted(name) + did_you_mean(name, initializer_names()));
}

}  // namespace fleet
