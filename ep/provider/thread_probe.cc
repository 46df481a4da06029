#include "provider/thread_probe.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <system_error>
#include <thread>

#include "provider/ort_runtime.h"
#include "provider/pool.h"
#include "provider/processors.h"

namespace tunableop {
namespace {

// How long the calling thread looks out for the others, in its own processor time: on a busy
// machine that stretches with the load, and a thread that was woken meanwhile gets its turn. A
// wrong answer would give the same model other keys, and what was saved for it would not be found.
constexpr int64_t kPatienceNs = 20'000'000;
constexpr int kAttempts = 3;

int64_t ThreadTimeNs() noexcept {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

struct Meeting {
  explicit Meeting(int expected_tasks) : expected(expected_tasks) {}
  const int expected;
  std::atomic<int> present{0};
  std::atomic<bool> over{false};  // somebody waited in vain: there are no more threads
};

void Attend(void* context, size_t /*index*/) {
  auto& meeting = *static_cast<Meeting*>(context);
  if (meeting.over.load()) return;  // a thread that comes back for a second task
  meeting.present.fetch_add(1);
  const int64_t deadline = ThreadTimeNs() + kPatienceNs;
  while (meeting.present.load() < meeting.expected && !meeting.over.load()) {
    if (ThreadTimeNs() > deadline) meeting.over.store(true);
    std::this_thread::yield();
  }
}

// Cores, not hyper-threads, that this process may run on: the size of ONNX Runtime's pool by
// default.
int PhysicalCores() {
  std::set<std::string> cores;
  for (const int cpu : ProcessorsOfProcess()) {
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                       "/topology/thread_siblings_list");
    std::string siblings;
    // Without a topology every processor counts.
    if (!std::getline(file, siblings)) siblings = "cpu" + std::to_string(cpu);
    cores.insert(siblings);
  }
  return std::max(1, static_cast<int>(cores.size()));
}

// A pool has no more threads than its process.
int ThreadsOfProcess() {
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/self/task", error);
  if (error) return std::numeric_limits<int>::max();
  return std::max(1, static_cast<int>(std::distance(begin(threads), end(threads))));
}

}  // namespace

int ProbePoolThreads(const OrtKernelContext* context) {
  const int most = std::min(PhysicalCores(), ThreadsOfProcess());
  int seen = 1;
  // A thread that missed the first meeting was woken for it, and comes to the second.
  for (int attempt = 0; attempt < kAttempts && seen < most; ++attempt) {
    Meeting meeting(most);
    OrtStatus* status =
        RunOnPool(context, &Attend, static_cast<size_t>(meeting.expected), &meeting);
    if (status != nullptr) {
      Ort().api->ReleaseStatus(status);
      break;
    }
    seen = std::max(seen, meeting.present.load());
  }
  return seen;
}

}  // namespace tunableop
