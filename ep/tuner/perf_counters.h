// Hardware counters of the calling thread around some calls of a kernel (Linux perf events).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tunableop {

// Per call. Nothing: the system does not give this counter.
struct PerfReading {
  std::optional<double> cycles;
  std::optional<double> instructions;
  std::optional<double> cache_misses;  // of the last level
  std::string
      unavailable;  // why something is missing: one line for a person; empty when all is there
};

// Opens its counters when made and closes them when destroyed. Used by one thread. Where the system
// forbids it (perf_event_paranoid, seccomp, a virtual machine without a PMU) it still works, and
// says why it has nothing.
class PerfCounters {
 public:
  PerfCounters();
  ~PerfCounters();
  PerfCounters(const PerfCounters&) = delete;
  PerfCounters& operator=(const PerfCounters&) = delete;

  void Start() noexcept;
  // What was counted since Start, divided by `calls`.
  PerfReading Stop(int calls);

 private:
  int cycles_ = -1;
  int instructions_ = -1;
  int cache_misses_ = -1;
  std::string unavailable_;
};

}  // namespace tunableop
