#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/registry.h"
#include "gemm/backend.h"
#include "gemm/packed_b.h"
#include "module/module.h"
#include "module/simulated_backend.h"
#include "module/tuner_arguments.h"
#include "module/tuning_doubles.h"
#include "tuner/cache_flush.h"
#include "tuner/clock_probe.h"
#include "tuner/deny_list.h"
#include "tuner/elements.h"
#include "tuner/statistics.h"
#include "tuner/tuner.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

TuneResult TuneOn(const Problem& problem, const Operands& operands,
                  std::span<const std::shared_ptr<const Backend>> backends,
                  const TunerOptions& options) {
  Result<TuneResult> result = [&] {
    const py::gil_scoped_release released;
    SerialExecutor executor;
    return Tune(problem, operands, executor, backends, options);
  }();
  if (!result.ok()) ThrowIfError(result.TakeStatus());
  return std::move(result.value());
}

SimulatedKernel ToKernel(const py::dict& spec) {
  SimulatedKernel kernel;
  for (const auto& [key, value] : spec) {
    const auto name = py::cast<std::string>(key);
    if (name == "name") {
      kernel.name = py::cast<std::string>(value);
    } else if (name == "ms") {
      kernel.ms = py::cast<double>(value);
    } else if (name == "noise") {
      kernel.noise = py::cast<double>(value);
    } else if (name == "spikes") {
      kernel.spikes = py::cast<double>(value);
    } else if (name == "seed") {
      kernel.seed = py::cast<uint64_t>(value);
    } else if (name == "after") {
      kernel.after = py::cast<int64_t>(value);
    } else if (name == "later_factor") {
      kernel.later_factor = py::cast<double>(value);
    } else if (name == "defect") {
      kernel.defect = py::cast<std::string>(value);
    } else if (name == "wrong_rows") {
      kernel.wrong_rows = py::cast<int64_t>(value);
    } else {
      throw py::type_error("unknown field of a simulated kernel: " + name);
    }
  }
  return kernel;
}

std::vector<SimulatedKernel> ToKernels(const std::vector<py::dict>& specs) {
  std::vector<SimulatedKernel> kernels;
  for (const py::dict& spec : specs) kernels.push_back(ToKernel(spec));
  return kernels;
}

PacerScript ToScript(const py::dict& spec) {
  PacerScript script;
  for (const auto& [key, value] : spec) {
    const auto name = py::cast<std::string>(key);
    if (name == "wait_ms") {
      script.wait_ms = py::cast<double>(value);
    } else if (name == "cancel_after") {
      script.cancel_after = py::cast<long>(value);
    } else if (name == "disturbed_every") {
      script.disturbed_every = py::cast<long>(value);
    } else if (name == "disturbance") {
      script.disturbance = py::cast<double>(value);
    } else {
      throw py::type_error("unknown field of a pacer: " + name);
    }
  }
  return script;
}

py::dict TuneSimulated(const Problem& problem, const Array& a, const Array& b, const Array& c,
                       const Array& bias, float alpha, float beta,
                       const std::vector<std::vector<py::dict>>& libraries, bool virtual_time,
                       const std::optional<std::vector<py::dict>>& spectator,
                       const std::optional<py::dict>& pacer, bool may_hang,
                       const py::kwargs& kwargs) {
  TunerOptions options = MakeOptions(kwargs);
  // Names of simulated kernels mean something within one call only, unless the test says otherwise.
  options.remember_wrong = kwargs.contains("remember_wrong") && options.remember_wrong;
  std::vector<std::shared_ptr<const SimulatedBackend>> simulated;
  for (const std::vector<py::dict>& specs : libraries) {
    const std::string library = "sim" + std::to_string(simulated.size());
    simulated.push_back(
        std::make_shared<SimulatedBackend>(library, ToKernels(specs), virtual_time, may_hang));
  }
  const std::vector<std::shared_ptr<const Backend>> backends(simulated.begin(), simulated.end());
  if (spectator) {
    simulated.push_back(
        std::make_shared<SimulatedBackend>("stock", ToKernels(*spectator), virtual_time));
    options.spectator = simulated.back();
  }
  if (virtual_time) {
    // Each library has a clock of its own: the time is their sum.
    options.now = [&simulated] {
      int64_t sum = 0;
      for (const auto& backend : simulated) sum += backend->clock()->ns;
      return sum;
    };
  }
  RecordingJournal journal;
  options.journal = &journal;
  ScriptedPacer paces(
      pacer ? ToScript(*pacer) : PacerScript(),
      [&](double ms) { simulated.front()->clock()->ns += static_cast<int64_t>(ms * 1e6); },
      [&](double load) {
        for (const auto& backend : simulated) backend->clock()->load = load;
      });
  if (pacer) {
    if (!virtual_time) throw py::value_error("a pacer needs virtual time");
    options.pacer = &paces;
  }
  const Operands operands = MakeOperands(problem, a, b, c, bias, alpha, beta);
  py::dict d = ToDict(TuneOn(problem, operands, backends, options));
  py::list calls;
  for (const auto& backend : simulated) calls.append(backend->calls());
  d["calls"] = calls;
  d["journal"] = journal.lines();
  d["turns"] = paces.turns();
  return d;
}

}  // namespace

void BindTuner(py::module_& module) {
  module.def("tune_simulated", &TuneSimulated, py::arg("problem"), py::arg("a"), py::arg("b"),
             py::arg("c") = py::none(), py::arg("bias") = py::none(), py::arg("alpha") = 1.0F,
             py::arg("beta") = 0.0F, py::kw_only(), py::arg("libraries"),
             py::arg("virtual_time") = true, py::arg("spectator") = py::none(),
             py::arg("pacer") = py::none(), py::arg("may_hang") = false,
             "Tunes with simulated kernels: a list of kernels (dicts) for each library.");
  // Calls of kernels with the defect "hangs" wait until they are let go.
  module.def("release_hanging", &HangGate::Open, py::call_guard<py::gil_scoped_release>());
  module.def("hanging", &HangGate::waiting);
#ifndef TUNABLEOP_WITHOUT_BACKENDS
  module.def(
      "tune_real",
      [](const Problem& problem, const Array& a, const Array& b, const Array& c, const Array& bias,
         float alpha, float beta, const py::kwargs& kwargs) {
        const Operands operands = MakeOperands(problem, a, b, c, bias, alpha, beta);
        return ToDict(TuneOn(problem, operands, CpuBackends(), MakeOptions(kwargs)));
      },
      py::arg("problem"), py::arg("a"), py::arg("b"), py::arg("c") = py::none(),
      py::arg("bias") = py::none(), py::arg("alpha") = 1.0F, py::arg("beta") = 0.0F,
      "Tunes with the libraries of this process, on one thread.");
#endif
  module.def("denials", [] {
    py::list all;
    for (const Denial& d : Denials()) {
      all.append(py::make_tuple(d.candidate.FullName(), d.identity, d.reason));
    }
    return all;
  });
  module.def("deny", &Deny, py::arg("candidate"), py::arg("identity"), py::arg("reason"));
  module.def(
      "load_elements",
      [](const py::array& data, DataType type) {
        if (static_cast<size_t>(data.itemsize()) != SizeOf(type)) {
          throw py::value_error("the elements are of another size");
        }
        py::array_t<double> out(data.size());
        LoadElements(data.data(), type, 0, data.size(), out.mutable_data());
        return out;
      },
      py::arg("data"), py::arg("type"), "What the verifier reads of an array.");
  module.def("can_flush_caches", &CanFlushCaches);
  module.def("measure_clock_mhz", &MeasureClockMhz);
  module.def("wins_every_turn",
             [](const std::vector<double>& challenger, const std::vector<double>& incumbent,
                double min_gain) { return WinsEveryTurn(challenger, incumbent, min_gain); });
  module.def(
      "chance_of_luck",
      [](const std::vector<double>& challenger, const std::vector<double>& incumbent,
         double factor) { return ChanceOfLuck(challenger, incumbent, factor); },
      py::arg("challenger"), py::arg("incumbent"), py::arg("factor") = 1.0);
}

}  // namespace tunableop::bindings
