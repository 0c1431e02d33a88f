// The smallest test framework that reports where and what.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                \
    }                                                                              \
  } while (false)

struct Test {
  const char* name;
  void (*run)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

inline bool add_test(const char* name, void (*run)()) {
  tests().push_back({name, run});
  return true;
}

// A test adds itself to those that main runs: TEST(split) { CHECK(1 + 1 == 2); }
#define TEST(name)                                                                \
  static void test_##name();                                                      \
  [[maybe_unused]] static const bool added_##name = add_test(#name, test_##name); \
  static void test_##name()
