#include "tuner/perf_counters.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tunableop {
namespace {

// Every process may count itself in user space up to this value; Debian and Android know higher
// ones (Documentation/admin-guide/sysctl/kernel.rst).
constexpr int kHighestParanoid = 2;

void Append(std::string* list, const std::string& item, const char* separator) {
  if (!list->empty()) *list += separator;
  *list += item;
}

#if defined(__linux__)

struct Event {
  const char* name;
  uint64_t config;  // of PERF_TYPE_HARDWARE
};

// In the order of PerfCounters::fds_.
constexpr std::array<Event, 3> kEvents = {{
    {"cycles", PERF_COUNT_HW_CPU_CYCLES},
    {"instructions", PERF_COUNT_HW_INSTRUCTIONS},
    {"cache misses", PERF_COUNT_HW_CACHE_MISSES},
}};

std::optional<int> Paranoid() {
  std::ifstream file("/proc/sys/kernel/perf_event_paranoid");
  int value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// -1 and errno, as the system call.
int Open(uint64_t config) noexcept {
  perf_event_attr attributes = {};
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.size = sizeof(attributes);
  attributes.config = config;
  attributes.disabled = 1;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  // This thread, on whatever processor it runs.
  return static_cast<int>(
      syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

#endif

}  // namespace

std::optional<double> ScaledCount(uint64_t count, uint64_t enabled, uint64_t running) noexcept {
  if (running == 0) return std::nullopt;
  const auto counted = static_cast<double>(count);
  if (running >= enabled) return counted;
  return counted * (static_cast<double>(enabled) / static_cast<double>(running));
}

std::string ExplainPerfError(int error, const std::string& counters, std::optional<int> paranoid) {
  switch (error) {
    case EACCES:
    case EPERM:
      if (paranoid && *paranoid > kHighestParanoid) {
        return "kernel.perf_event_paranoid is " + std::to_string(*paranoid) +
               ": perf events need " + std::to_string(kHighestParanoid) +
               " or less, or CAP_PERFMON";
      }
      return "perf events are not permitted here (a container's seccomp rules forbid them)";
    case ENOENT:
    case ENODEV:
    case EINVAL:
    case EOPNOTSUPP:
      return "this (virtual) machine gives no counter for " + counters;
    case ENOSYS:
      return "this system has no perf events";
    default:
      return counters + ": perf_event_open: " + std::strerror(error);
  }
}

#if defined(__linux__)

PerfCounters::PerfCounters() {
  // One line for each reason, not for each counter: they mostly fail alike.
  std::vector<std::pair<int, std::string>> failures;
  for (size_t i = 0; i < kCounters; ++i) {
    fds_[i] = Open(kEvents[i].config);
    if (fds_[i] >= 0) continue;
    const int error = errno;
    if (failures.empty() || failures.back().first != error) failures.emplace_back(error, "");
    Append(&failures.back().second, kEvents[i].name, ", ");
  }
  if (failures.empty()) return;
  const std::optional<int> paranoid = Paranoid();
  for (const auto& [error, counters] : failures) {
    Append(&unavailable_, ExplainPerfError(error, counters, paranoid), "; ");
  }
}

PerfCounters::~PerfCounters() {
  for (const int fd : fds_) {
    if (fd >= 0) close(fd);
  }
}

bool PerfCounters::Read(int fd, Value* value) noexcept {
  std::array<uint64_t, 3> words = {};
  if (fd < 0 || read(fd, words.data(), sizeof(words)) != static_cast<ssize_t>(sizeof(words))) {
    return false;
  }
  *value = {words[0], words[1], words[2]};
  return true;
}

void PerfCounters::Start() noexcept {
  // Resetting would leave the times as they are, so the start is remembered instead.
  for (size_t i = 0; i < kCounters; ++i) {
    if (!Read(fds_[i], &started_[i])) started_[i] = {};
  }
  for (const int fd : fds_) {
    if (fd >= 0) ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
  }
}

PerfReading PerfCounters::Stop(int calls) {
  for (const int fd : fds_) {
    if (fd >= 0) ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
  }
  PerfReading reading;
  reading.unavailable = unavailable_;
  const std::array<std::optional<double>*, kCounters> targets = {
      &reading.cycles, &reading.instructions, &reading.cache_misses};
  std::string idle;
  for (size_t i = 0; i < kCounters; ++i) {
    if (fds_[i] < 0) continue;
    Value now;
    std::optional<double> count;
    if (Read(fds_[i], &now)) {
      const Value& then = started_[i];
      count = ScaledCount(now.count - then.count, now.enabled - then.enabled,
                          now.running - then.running);
    }
    if (count && calls > 0) {
      *targets[i] = *count / calls;
    } else {
      Append(&idle, kEvents[i].name, ", ");
    }
  }
  if (!idle.empty()) {
    Append(&reading.unavailable,
           calls > 0 ? idle + ": the counter never ran (others hold it, or too short)"
                     : idle + ": no call was counted",
           "; ");
  }
  return reading;
}

#else

PerfCounters::PerfCounters() : unavailable_("perf events are Linux's") {}
PerfCounters::~PerfCounters() = default;
bool PerfCounters::Read(int, Value*) noexcept { return false; }
void PerfCounters::Start() noexcept {}

PerfReading PerfCounters::Stop(int) {
  PerfReading reading;
  reading.unavailable = unavailable_;
  return reading;
}

#endif

}  // namespace tunableop
