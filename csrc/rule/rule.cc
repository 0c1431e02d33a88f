#include "rule/rule.h"

#include <stdexcept>

namespace fleet {

// Each reads its arguments; make_rule then complains about what it did not ask for.
std::unique_ptr<Rule> make_adagrad(Arguments& args);
std::unique_ptr<Rule> make_adagrad_row(Arguments& args);
std::unique_ptr<Rule> make_adam(Arguments& args);
std::unique_ptr<Rule> make_adamax(Arguments& args);
std::unique_ptr<Rule> make_adamw(Arguments& args);
std::unique_ptr<Rule> make_average(Arguments& args);
std::unique_ptr<Rule> make_decayed_adagrad(Arguments& args);
std::unique_ptr<Rule> make_ftrl(Arguments& args);
std::unique_ptr<Rule> make_lamb(Arguments& args);
std::unique_ptr<Rule> make_lars(Arguments& args);
std::unique_ptr<Rule> make_momentum(Arguments& args);
std::unique_ptr<Rule> make_rmsprop(Arguments& args);
std::unique_ptr<Rule> make_sgd(Arguments& args);
std::unique_ptr<Rule> make_sum(Arguments& args);

namespace {

struct Known {
  const char* name;
  std::unique_ptr<Rule> (*make)(Arguments&);
};

constexpr Known kRules[] = {
    {"adagrad", make_adagrad},
    {"adagrad_row", make_adagrad_row},
    {"adam", make_adam},
    {"adamax", make_adamax},
    {"adamw", make_adamw},
    {"average", make_average},
    {"decayed_adagrad", make_decayed_adagrad},
    {"ftrl", make_ftrl},
    {"lamb", make_lamb},
    {"lars", make_lars},
    {"momentum", make_momentum},
    {"rmsprop", make_rmsprop},
    {"sgd", make_sgd},
    {"sum", make_sum},
};

}  // namespace

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const Known& rule : kRules) names.emplace_back(rule.name);
  return names;
}

std::unique_ptr<Rule> make_rule(const std::string& name, const Args& args) {
  for (const Known& known : kRules) {
    if (name != known.name) continue;
    Arguments arguments("rule " + name, args);
    std::unique_ptr<Rule> rule = known.make(arguments);
    arguments.check();
    return rule;
  }
  throw std::invalid_argument("unknown rule " + quoted(name) + did_you_mean(name, rule_names()));
}

}  // namespace fleet
