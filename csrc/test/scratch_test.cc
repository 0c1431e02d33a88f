#include "keys/scratch.h"

#include "check.h"

TEST(scratch) {
  void* first = nullptr;
  {
    fleet::Scratch<int> a(1000000);
    first = a.data();
  }
  {
    fleet::Scratch<int> again(999999);
    CHECK(again.data() == first);
    fleet::Scratch<int> another(10);
    CHECK(another.data() != first);
  }
  {
    fleet::Scratch<char> huge(2 * fleet::kScratchKeepBytes);
  }
  for (std::size_t i = 1; i < 100; ++i) fleet::Scratch<char> grows(i << 20);
  CHECK(fleet::kept_scratch_bytes() <= fleet::kScratchKeepBytes);
}
