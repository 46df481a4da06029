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
  explicit Pacing(std::optional<int> threads, double hold_share)
      : pacer(stop, threads, hold_share) {}
  std::atomic<bool> stop{false};
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
  py::class_<Pacing>(module, "Pacer")
      .def(py::init<std::optional<int>, double>(), py::arg("threads"), py::arg("hold_share"))
      .def(
          "wait_for_turn", [](Pacing& p) { return p.pacer.WaitForTurn(); }, free)
      .def("disturbed", [](const Pacing& p) { return p.pacer.Disturbed(); })
      .def("stop", [](Pacing& p) { p.stop.store(true); })
      .def_property_readonly("waited_ms", [](const Pacing& p) {
        return static_cast<double>(p.pacer.waited_ns()) / kNsPerMs;
      });
}

}  // namespace tunableop::bindings
