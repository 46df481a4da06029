// Mistakes made on purpose, in builds with a sanitizer only: whether they are reported at all is
// what tools/sanitize/run.py asks first.
#include <climits>
#include <memory>
#include <thread>

#include "module/module.h"

namespace tunableop::bindings {
namespace {

// The optimiser must not see that these are mistakes.
volatile int g_one = 1;

int ReadPastTheEnd() {
  const auto memory = std::make_unique<int[]>(4);
  return memory[static_cast<size_t>(g_one) + 3];  // NOLINT(clang-analyzer-*)
}

int ReadAfterFree() {
  auto memory = std::make_unique<int[]>(4);
  const volatile int* const gone = memory.get();
  memory.reset();
  return gone[g_one];  // NOLINT(clang-analyzer-*)
}

int OverflowInt() { return INT_MAX - 1 + g_one + g_one; }

int Race() {
  int shared = 0;
  const auto work = [&shared] {
    for (int i = 0; i < 1000; ++i) shared += g_one;
  };
  std::thread other(work);
  work();
  other.join();
  return shared;
}

}  // namespace

void BindMistakes(pybind11::module_& module) {
  module.def("read_past_the_end", &ReadPastTheEnd);
  module.def("read_after_free", &ReadAfterFree);
  module.def("overflow_int", &OverflowInt);
  module.def("race", &Race);
}

}  // namespace tunableop::bindings
