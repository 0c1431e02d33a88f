#include <cstdio>

void test_unique();
void test_radix();
void test_scratch();
void test_split();
void test_merge();
void test_threads();

int main() {
  test_unique();
  test_radix();
  test_scratch();
  test_split();
  test_merge();
  test_threads();
  std::puts("ok");
}
