#include "provider/thread_probe.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "provider/ort_runtime.h"

namespace tunableop {
namespace {

// Long enough for a sleeping pool thread to be scheduled on a busy machine: a wrong answer would
// give the same model other keys, and what was saved for it would not be found.
constexpr std::chrono::milliseconds kPatience{50};

struct Meeting {
  explicit Meeting(int expected_tasks) : expected(expected_tasks) {}
  const int expected;
  std::atomic<int> present{0};
  std::atomic<bool> over{false};  // somebody waited in vain: there are no more threads
};

void Attend(void* context, size_t /*index*/) {
  auto& meeting = *static_cast<Meeting*>(context);
  if (meeting.over.load()) return;  // a thread that comes back for a second task
  const int arrived = meeting.present.fetch_add(1) + 1;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (arrived < meeting.expected && meeting.present.load() < meeting.expected &&
         !meeting.over.load()) {
    if (std::chrono::steady_clock::now() > deadline) meeting.over.store(true);
    std::this_thread::yield();
  }
}

int Processors() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

int ProbePoolThreads(const OrtKernelContext* context) noexcept {
  Meeting meeting(Processors());
  if (meeting.expected == 1) return 1;
  OrtStatus* status = Ort().api->KernelContext_ParallelFor(
      context, &Attend, static_cast<size_t>(meeting.expected), 0, &meeting);
  if (status != nullptr) {
    Ort().api->ReleaseStatus(status);
    return 1;
  }
  return std::max(1, meeting.present.load());
}

}  // namespace tunableop
