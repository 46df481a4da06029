// Sensors, counters, staleness and rates, for tests.
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "module/module.h"
#include "tuner/machine_watch.h"
#include "tuner/perf_counters.h"
#include "tuner/rates.h"
#include "tuner/sensors.h"
#include "tuner/staleness.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

// What a test wants to be read next.
struct Script {
  std::mutex mutex;
  MachineState state;
  int reads = 0;
};

class ScriptedSensors final : public Sensors {
 public:
  explicit ScriptedSensors(std::shared_ptr<Script> script) : script_(std::move(script)) {}
  MachineState Read() const noexcept override {
    const std::lock_guard lock(script_->mutex);
    ++script_->reads;
    return script_->state;
  }
  std::vector<std::string> Missing() const override { return {"scripted"}; }

 private:
  const std::shared_ptr<Script> script_;
};

// A MachineWatch on a clock that the test turns; `interval_ms` as there.
class TestWatch {
 public:
  TestWatch(int64_t interval_ms, bool with_sensors)
      : watch_(with_sensors ? MachineWatch::MakeSensors(
                                  [this] { return std::make_unique<ScriptedSensors>(script_); })
                            : nullptr,
               interval_ms, [this] { return now_ns_; }) {}

  void Advance(int64_t ms) { now_ns_ += ms * 1'000'000; }
  void Show(const MachineState& state) {
    const std::lock_guard lock(script_->mutex);
    script_->state = state;
  }
  int reads() const {
    const std::lock_guard lock(script_->mutex);
    return script_->reads;
  }
  MachineWatch& watch() { return watch_; }

  // Everything at once from several threads; true when every state seen was a whole one.
  bool Hammer(int threads, int rounds) {
    std::vector<std::thread> pool;
    std::mutex mutex;
    bool whole = true;
    for (int t = 0; t < threads; ++t) {
      pool.emplace_back([&, t] {
        for (int i = 0; i < rounds; ++i) {
          // Temperature and fragmentation are written together.
          const double value = 1.0 + t + i;
          MachineState shown;
          shown.temperature_c = value;
          shown.memory_fragmentation = value;
          Show(shown);
          watch_.Poll();
          watch_.FeedClock(value);
          const MachineState state = watch_.state();
          const int low = watch_.low_clock_readings(1e9);
          const std::lock_guard lock(mutex);
          whole = whole && state.temperature_c == state.memory_fragmentation && low >= 1 &&
                  low <= static_cast<int>(MachineWatch::kRemembered);
        }
      });
    }
    for (std::thread& thread : pool) thread.join();
    return whole;
  }

 private:
  int64_t now_ns_ = 0;
  const std::shared_ptr<Script> script_ = std::make_shared<Script>();
  MachineWatch watch_;
};

py::dict ReadingToDict(const PerfReading& reading) {
  py::dict d;
  d["cycles"] = reading.cycles;
  d["instructions"] = reading.instructions;
  d["cache_misses"] = reading.cache_misses;
  d["unavailable"] = reading.unavailable;
  return d;
}

// `calls` calls of a loop of `loops` turns, each at least one instruction.
py::dict CountLoop(int64_t loops, int calls) {
  PerfCounters counters;
  PerfReading reading;
  // Twice, of which the second counts: what Start has to forget would show.
  for (int round = 0; round < 2; ++round) {
    counters.Start();
    for (int call = 0; call < calls; ++call) {
      volatile int64_t sum = 0;
      for (int64_t i = 0; i < loops; ++i) sum = sum + i;
    }
    reading = counters.Stop(calls);
  }
  return ReadingToDict(reading);
}

}  // namespace

void BindSensors(py::module_& module) {
  py::class_<MachineState>(module, "MachineState")
      .def(py::init([](std::optional<double> temperature_c, std::optional<double> clock_mhz,
                       std::optional<double> memory_fragmentation) {
             MachineState state;
             state.temperature_c = temperature_c;
             state.clock_mhz = clock_mhz;
             state.memory_fragmentation = memory_fragmentation;
             return state;
           }),
           py::arg("temperature_c") = py::none(), py::arg("clock_mhz") = py::none(),
           py::arg("memory_fragmentation") = py::none())
      .def_readwrite("temperature_c", &MachineState::temperature_c)
      .def_readwrite("clock_mhz", &MachineState::clock_mhz)
      .def_readwrite("memory_fragmentation", &MachineState::memory_fragmentation)
      .def_readwrite("power_w", &MachineState::power_w)
      .def_readwrite("free_memory_bytes", &MachineState::free_memory_bytes)
      .def_readwrite("throttled", &MachineState::throttled);

  py::class_<Sensors>(module, "Sensors")
      .def("read", &Sensors::Read)
      .def("missing", &Sensors::Missing);
  module.def("cpu_sensors", &CpuSensors, py::arg("root") = std::filesystem::path("/"));
  module.def("nvidia_sensors", &NvidiaSensors, py::arg("index") = 0);
  module.def("nvidia_sensors_at", &NvidiaSensorsAt, py::arg("pci_bus_id"));
  module.def("amd_sensors", &AmdSensors, py::arg("index") = 0,
             py::arg("root") = std::filesystem::path("/"));
  module.def("amd_sensors_at", &AmdSensorsAt, py::arg("pci_bus_id"),
             py::arg("root") = std::filesystem::path("/"));
  module.def("gpu_sensors", &GpuSensors, py::arg("vendor_id"), py::arg("pci_bus_id"),
             py::arg("root") = std::filesystem::path("/"));
  module.def("partition_mode", &PartitionMode, py::arg("vendor_id"), py::arg("pci_bus_id"),
             py::arg("root") = std::filesystem::path("/"));

  module.def("count_loop", &CountLoop, py::arg("loops"), py::arg("calls"));
  module.def("explain_perf_error", &ExplainPerfError, py::arg("error"), py::arg("counters"),
             py::arg("paranoid") = py::none());
  module.def("scaled_count", &ScaledCount, py::arg("count"), py::arg("enabled"),
             py::arg("running"));

  py::class_<StalenessRules>(module, "StalenessRules")
      .def(py::init<>())
      .def_readwrite("time_to_live_ms", &StalenessRules::time_to_live_ms)
      .def_readwrite("temperature_step_c", &StalenessRules::temperature_step_c)
      .def_readwrite("clock_drop", &StalenessRules::clock_drop)
      .def_readwrite("fragmentation", &StalenessRules::fragmentation);
  module.def(
      "why_stale",
      [](const StalenessRules& rules, int64_t age_ms, const MachineState& then, int confirmations,
         const MachineState& now, int low_clock_readings) {
        return WhyStale(rules, {age_ms, then, confirmations}, now, low_clock_readings);
      },
      py::arg("rules"), py::kw_only(), py::arg("age_ms") = 0, py::arg("then") = MachineState(),
      py::arg("confirmations") = 0, py::arg("now") = MachineState(),
      py::arg("low_clock_readings") = 0);
  module.def("time_to_live", &TimeToLive, py::arg("rules"), py::arg("confirmations"));

  py::class_<TestWatch>(module, "MachineWatch")
      .def(py::init<int64_t, bool>(), py::arg("interval_ms") = 1000, py::arg("with_sensors") = true)
      .def("advance", &TestWatch::Advance, py::arg("ms"))
      .def("show", &TestWatch::Show, py::arg("state"))
      .def_property_readonly("reads", &TestWatch::reads)
      .def(
          "poll", [](TestWatch& w, bool idle) { return w.watch().Poll(idle); },
          py::arg("idle") = false)
      .def(
          "feed_clock", [](TestWatch& w, double mhz) { w.watch().FeedClock(mhz); }, py::arg("mhz"))
      .def("state", [](TestWatch& w) { return w.watch().state(); })
      .def("missing", [](TestWatch& w) { return w.watch().Missing(); })
      .def(
          "low_clock_readings",
          [](TestWatch& w, std::optional<double> reference_mhz, double drop) {
            return w.watch().low_clock_readings(reference_mhz, drop);
          },
          py::arg("reference_mhz"), py::arg("drop") = 0.10)
      .def("hammer", &TestWatch::Hammer, py::arg("threads"), py::arg("rounds"),
           py::call_guard<py::gil_scoped_release>());

  module.def("gflops", &Gflops, py::arg("problem"), py::arg("ms"));
  module.def("compulsory_bytes", &CompulsoryBytes, py::arg("problem"));
  module.def("gigabytes_per_second", &GigabytesPerSecond, py::arg("problem"), py::arg("ms"));
}

}  // namespace tunableop::bindings
