#include "core/faults.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

namespace simgpu {
namespace {

constexpr std::string_view kKinds[] = {
    "wrong",             // [:algo] its result is off by a large part
    "wrong_but_first",   // every algo but the first of the heuristic's list
    "overrun",           // [:algo] writes 16 elements after the end of C
    "tail",              // [:algo] leaves the last element of every column
    "reads_c",           // [:algo] multiplies C by beta even where beta is 0: NaN stays NaN
    "not_supported",     // [:algo] fails when it is run, not when it is asked about
    "execution_failed",  // [:algo] as above, with the status of a failed launch
    "oom",               // :n the n-th allocation from now fails; counted by "mallocs"
    "oom_above",         // :bytes every larger allocation fails
    "hang",              // [:algo] a kernel that ends when released
    "hang_sum",          // [:algo] likewise, between writing to the workspace and reading from it
    "slow",              // [:algo][:factor, 10] simulated time only
    "slow_products",     // [:factor, 10] simulated time of all products
    "slow_bias",         // [:factor, 10] simulated time of products with a row of biases
    "slow_attention",    // [:factor, 10] simulated time of the kernels of attention
    "slow_loaded",       // [:factor, 10] simulated time of loaded code
    "noisy",             // [:percent, 5] simulated times vary by that much
    "slow_launch",       // a call that uses a workspace takes 0.1 ms of real time
    "real_slow",         // :ms every kernel also takes that long in real time
    "old_driver",        // the driver is older than the runtime
    "no_driver",         // no driver at all
    "no_cards",          // GetDeviceCount finds none
    "old_library",       // the GEMM library says it is an old release
    "moved_indices",     // solutions have other indices and the release another name: an upgrade
    "lost",              // :n the card is lost at the n-th kernel from now
    "lt_unsupported",    // the GEMM library knows no kernel for this card
    "blas_unsupported",  // rocBLAS: likewise
    "no_handles",        // libraries make none, as when the card has no memory
    "heuristic_fails",   // the heuristic returns an error
    "no_heuristics",     // the heuristic returns an empty list
    "capture_refuses",   // :n the n-th thing from now that is queued while it is captured fails
    "capture_spoilt",    // a capture ends with nothing
    "no_instance",       // no memory to make a graph executable
    "no_graph_launch",   // a graph cannot be launched
    "compile_fails",     // the compiler finds an error in every text
    "compile_oom",       // the compiler has no memory
    "compile_slow",      // [:ms, 10] of real time that compiling takes
    "old_compiler",      // nvrtc knows no card as new as this one
    "new_compiler",      // nvrtc knows no card as old as this one any more
    "module_fails",      // code cannot be loaded: the image is damaged
    "module_oom",        // code cannot be loaded: no memory
    "launch_fails",      // a launch of loaded code fails: no resources
    "hang_kernel",       // loaded code ends when released
};

// Whether any fault is on: what every call asks first.
std::atomic<bool> any{false};

struct State {
  std::mutex mutex;
  std::condition_variable released;
  std::map<std::string, std::vector<FaultArguments>, std::less<>> faults;
  std::map<std::string, int64_t, std::less<>> counts;
  std::map<std::string, int64_t, std::less<>> counts_then;  // when the faults were set
  uint64_t releases = 0;
};

void Parse(State& state, std::string_view rest) {
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    std::string_view entry = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (entry.empty()) continue;
    size_t colon = std::min(entry.find(':'), entry.size());
    const std::string_view kind = entry.substr(0, colon);
    bool good = std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds);
    FaultArguments arguments;
    while (good && colon < entry.size()) {
      entry.remove_prefix(colon + 1);
      colon = std::min(entry.find(':'), entry.size());
      const std::string text(entry.substr(0, colon));
      char* end = nullptr;
      const int64_t value = std::strtoll(text.c_str(), &end, 10);
      good = !text.empty() && *end == '\0';
      arguments.push_back(value);
    }
    if (!good) {
      std::fprintf(stderr, "gpu_sim: not a fault: '%s'\n", std::string(kind).c_str());
      std::abort();
    }
    state.faults[std::string(kind)].push_back(std::move(arguments));
    any = true;
  }
}

// Never destroyed: threads of streams may still run when the process ends.
State& TheState() {
  static State* const state = [] {
    auto* const made = new State;
    if (const char* text = std::getenv("SIM_GPU_FAULTS")) Parse(*made, text);
    return made;
  }();
  return *state;
}

}  // namespace

bool FaultOn(std::string_view kind) {
  State& state = TheState();
  if (!any.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(state.mutex);
  return state.faults.find(kind) != state.faults.end();
}

bool FaultOnFor(std::string_view kind, int64_t value) {
  State& state = TheState();
  if (!any.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(state.mutex);
  const auto found = state.faults.find(kind);
  if (found == state.faults.end()) return false;
  return std::any_of(
      found->second.begin(), found->second.end(),
      [value](const FaultArguments& entry) { return entry.empty() || entry[0] == value; });
}

int64_t FaultArgument(std::string_view kind, size_t position, int64_t otherwise) {
  State& state = TheState();
  if (!any.load(std::memory_order_relaxed)) return otherwise;
  const std::lock_guard lock(state.mutex);
  const auto found = state.faults.find(kind);
  if (found == state.faults.end() || found->second[0].size() <= position) return otherwise;
  return found->second[0][position];
}

void SetFaults(std::string_view specification) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  state.faults.clear();
  any = false;
  state.counts_then = state.counts;
  Parse(state, specification);
  state.released.notify_all();
}

void Count(std::string_view what, int64_t more) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const auto found = state.counts.find(what);
  if (found != state.counts.end()) {
    found->second += more;
  } else {
    state.counts.emplace(what, more);
  }
}

int64_t Counted(std::string_view what) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const auto found = state.counts.find(what);
  return found == state.counts.end() ? 0 : found->second;
}

int64_t CountedWithFaults(std::string_view what) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const auto now = state.counts.find(what);
  const auto then = state.counts_then.find(what);
  return (now == state.counts.end() ? 0 : now->second) -
         (then == state.counts_then.end() ? 0 : then->second);
}

void ResetCounts() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  state.counts.clear();
  state.counts_then.clear();
}

void Misuse(std::string_view what) {
  Count("misuse");
  Count("misuse:" + std::string(what));
  if (std::getenv("SIM_GPU_VERBOSE") != nullptr) {
    std::fprintf(stderr, "gpu_sim: misuse: %s\n", std::string(what).c_str());
  }
}

void Hang(std::string_view kind) {
  State& state = TheState();
  std::unique_lock lock(state.mutex);
  const uint64_t seen = state.releases;
  ++state.counts["hanging"];
  state.released.wait(lock, [&] {
    return state.releases != seen || state.faults.find(kind) == state.faults.end();
  });
}

void Release() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  ++state.releases;
  state.released.notify_all();
}

}  // namespace simgpu
