// The crash journal (cache/crash_journal.h), for the tests.
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "cache/crash_journal.h"
#include "module/module.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

py::dict ToDict(const Death& death) {
  py::dict d;
  d["library"] = death.library;
  d["kernel"] = death.kernel;
  d["problem"] = death.problem;
  d["is_default"] = death.is_default;
  return d;
}

std::unique_ptr<CrashJournal> Create(const std::filesystem::path& cache) {
  auto journal = CrashJournal::Create(cache);
  if (!journal.ok()) ThrowIfError(journal.TakeStatus());
  return std::move(journal).value();
}

// Nanoseconds of Enter and Leave together. `candidates`: 1: the same one in every call; 2: another
// one in every call, whose name has to be written.
double MeasureJournal(CrashJournal& journal, size_t candidates, int64_t calls) {
  const std::vector<Candidate> list(
      candidates,
      Candidate{"native", "avx512:6x64/kc384/rows/a-kernel-name-of-usual-length", -1, 0});
  TrialJournal& seen_by_tuner = journal;
  seen_by_tuner.Begin(Problem{}, list);
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < calls; ++i) {
    seen_by_tuner.Enter(static_cast<size_t>(i) % candidates);
    seen_by_tuner.Leave();
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  seen_by_tuner.End();
  return took.count() / static_cast<double>(calls);
}

}  // namespace

void BindJournal(py::module_& module) {
  py::class_<CrashJournal>(module, "CrashJournal")
      .def(py::init(&Create), py::arg("cache"))
      .def(
          "begin",
          [](CrashJournal& j, const Problem& p, const std::vector<Candidate>& c) { j.Begin(p, c); },
          py::arg("problem"), py::arg("candidates"))
      .def("enter", &CrashJournal::Enter, py::arg("index"))
      .def("leave", &CrashJournal::Leave)
      .def("end", &CrashJournal::End);
  module.def("measure_journal", &MeasureJournal, py::arg("journal"), py::arg("candidates"),
             py::arg("calls"), py::call_guard<py::gil_scoped_release>());
  module.def(
      "collect_deaths",
      [](const std::filesystem::path& cache) {
        const std::vector<Death> deaths = [&] {
          const py::gil_scoped_release released;
          return CollectDeaths(cache);
        }();
        py::list list;
        for (const Death& death : deaths) list.append(ToDict(death));
        return list;
      },
      py::arg("cache"));
}

}  // namespace tunableop::bindings
