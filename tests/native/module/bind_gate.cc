// Runs in flight and who makes way for them (provider/run_gate.h, provider/idle_pacer.h).
#include <pybind11/stl.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "module/module.h"
#include "provider/idle_pacer.h"
#include "provider/run_gate.h"
#include "tuner/clock.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

constexpr double kNsPerMs = 1e6;

// A gate of its own: not the process'.
struct Gate {
  RunGate gate;

  bool TryHold(double ms) { return gate.TryHold(After(ms)); }
  void EndHold(double rest_ms) { gate.EndHold(After(rest_ms)); }

  static int64_t After(double ms) { return SteadyNow() + static_cast<int64_t>(ms * kNsPerMs); }
};

struct Pacing {
  Pacing(std::optional<int> threads, double hold_share, double patience_ms)
      : pacer(stop, threads, hold_share,
              {.wanted = [this] { return wanted.load(); },
               .others_ns = &others_ns,
               .patience_ns = static_cast<int64_t>(patience_ms * kNsPerMs)}) {}
  std::atomic<bool> stop{false};
  std::atomic<bool> wanted{true};
  std::atomic<int64_t> others_ns{0};
  IdlePacer pacer;
};

}  // namespace

void BindGate(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> free;
  py::class_<Gate>(module, "Gate")
      .def(py::init<>())
      .def(
          "started", [](Gate& g) { g.gate.Started(); }, free)
      .def("ended", [](Gate& g) { g.gate.Ended(); })
      .def("try_hold", &Gate::TryHold, py::arg("ms"))
      .def("end_hold", &Gate::EndHold, py::arg("rest_ms"))
      .def_property_readonly("in_flight", [](const Gate& g) { return g.gate.in_flight(); });
  // The process' own gate.
  module.def("run_started", [] { Runs().Started(); }, free);
  module.def("run_ended", [] { Runs().Ended(); });
  module.def("drain_ms", [] { return static_cast<double>(Runs().drain_ns()) / kNsPerMs; });
  py::class_<Pacing>(module, "Pacer")
      .def(py::init<std::optional<int>, double, double>(), py::arg("threads"),
           py::arg("hold_share"), py::arg("patience_ms") = 5000.0)
      .def(
          "wait_for_turn", [](Pacing& p) { return p.pacer.WaitForTurn(); }, free)
      .def("disturbed", [](const Pacing& p) { return p.pacer.Disturbed(); })
      .def("stop", [](Pacing& p) { p.stop.store(true); })
      .def("unwanted", [](Pacing& p) { p.wanted.store(false); })
      .def("others_wait", [](Pacing& p) { p.others_ns.store(SteadyNow()); })
      .def_property_readonly("waited_ms", [](const Pacing& p) {
        return static_cast<double>(p.pacer.waited_ns()) / kNsPerMs;
      });
}

}  // namespace tunableop::bindings
