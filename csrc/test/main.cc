// Runs every test, or those whose name holds the argument: core_test table
#include <cstdio>
#include <cstring>

#include "check.h"

int main(int argc, char** argv) {
  int count = 0;
  for (const Test& test : tests()) {
    if (argc > 1 && std::strstr(test.name, argv[1]) == nullptr) continue;
    test.run();
    ++count;
  }
  std::printf("%d tests ok\n", count);
  return count == 0;
}
