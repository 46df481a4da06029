// Hardware counters of the calling thread around some calls of a kernel (Linux perf events).
#pragma once

#include <array>
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

// Counts what the thread that made it does in user space, not what it makes other threads do.
// Opens its counters when made and closes them when destroyed. Used by that one thread. Where the
// system forbids it (perf_event_paranoid, seccomp, a virtual machine without a PMU) it still works,
// and says why it has nothing.
class PerfCounters {
 public:
  PerfCounters();
  ~PerfCounters();
  PerfCounters(const PerfCounters&) = delete;
  PerfCounters& operator=(const PerfCounters&) = delete;

  void Start() noexcept;
  // What was counted since Start, divided by `calls`. Where other users of the counters took turns
  // with this one, the count is scaled up to the whole time.
  PerfReading Stop(int calls);

 private:
  static constexpr size_t kCounters = 3;

  // As the kernel reports it: the times, in nanoseconds, never go back, whatever is reset.
  struct Value {
    uint64_t count = 0;
    uint64_t enabled = 0;  // time that the counter was wanted
    uint64_t running = 0;  // time that it had hardware to count with
  };

  static bool Read(int fd, Value* value) noexcept;

  std::array<int, kCounters> fds_ = {-1, -1, -1};  // cycles, instructions, cache misses
  std::array<Value, kCounters> started_;
  std::string unavailable_;
};

// Of a counter that ran for `running` of the `enabled` nanoseconds. Nothing: it never ran.
std::optional<double> ScaledCount(uint64_t count, uint64_t enabled, uint64_t running) noexcept;

// Why perf_event_open failed with `error` (errno) for `counters` ("cycles, cache misses"), in
// words. `paranoid`: the value of kernel.perf_event_paranoid, if known.
std::string ExplainPerfError(int error, const std::string& counters, std::optional<int> paranoid);

}  // namespace tunableop
