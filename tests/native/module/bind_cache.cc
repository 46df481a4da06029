#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "cache/file_store.h"
#include "cache/fingerprint.h"
#include "cache/session_cache.h"
#include "module/cache_hammer.h"
#include "module/module.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

using OptionalDict = std::optional<py::dict>;

Fingerprint ToFingerprint(const OptionalDict& dict) {
  if (!dict) return CpuFingerprint();
  for (const auto& [key, value] : *dict) {
    const auto name = py::cast<std::string>(key);
    if (name != "device" && name != "model" && name != "features" && name != "cores") {
      throw py::value_error("fingerprint." + name +
                            ": expected device, model, features and cores only");
    }
  }
  const auto field = [&](const char* name) -> py::object {
    if (!dict->contains(name)) {
      throw py::value_error(std::string("fingerprint.") + name + ": expected, found nothing");
    }
    return (*dict)[name];
  };
  return {py::cast<std::string>(field("device")), py::cast<std::string>(field("model")),
          py::cast<std::string>(field("features")), py::cast<int>(field("cores"))};
}

// Records travel as the JSON of the document, so that Python sees its very fields and the one
// reader of the cache judges what comes from there.
py::list ToDicts(const std::vector<Record>& records, const Fingerprint& here) {
  const py::object document =
      py::module_::import("json").attr("loads")(FormatResults(Knowledge{.records = records}, here));
  return document["machines"][py::int_(0)]["entries"];
}

std::vector<Record> ToRecords(const py::list& dicts, const Fingerprint& here) {
  py::dict machine;
  machine["fingerprint"] = ToDict(here);
  machine["entries"] = dicts;
  py::list machines;
  machines.append(machine);
  py::dict document;
  document["schema"] = kSchemaVersion;
  document["machines"] = machines;
  const auto text = py::cast<std::string>(py::module_::import("json").attr("dumps")(document));
  LoadReport report = ParseResults(text, "records", here);
  if (!report.problems.empty()) throw py::value_error(report.problems.front());
  return std::move(report.knowledge.records);
}

py::tuple ToTuple(const LoadReport& report, const Fingerprint& here) {
  return py::make_tuple(ToDicts(report.knowledge.records, here), report.problems);
}

// SessionCache for tests, with records in place of plans.
class TestCache {
 public:
  explicit TestCache(size_t capacity) : cache_(capacity) {}

  void Put(const Problem& problem, const std::string& kernel) {
    auto entry = std::make_shared<Entry>();
    entry->record.problem = problem;
    entry->record.winner.kernel = kernel;
    cache_.Put(std::move(entry));
  }
  std::optional<std::string> Find(const Problem& problem) const {
    const SessionCache::ReadGuard guard;
    const Entry* entry = cache_.Find(problem);
    if (entry == nullptr) return std::nullopt;
    return entry->record.winner.kernel;
  }
  SessionCache& cache() { return cache_; }

 private:
  SessionCache cache_;
};

}  // namespace

void BindCache(py::module_& module) {
  module.attr("SCHEMA_VERSION") = kSchemaVersion;

  module.def(
      "parse_results",
      [](const std::string& text, const std::string& origin, const OptionalDict& fingerprint) {
        const Fingerprint here = ToFingerprint(fingerprint);
        return ToTuple(ParseResults(text, origin, here), here);
      },
      py::arg("text"), py::arg("origin") = "results", py::arg("fingerprint") = py::none(),
      "(records, problems) of a document.");
  module.def(
      "format_results",
      [](const py::list& records, const OptionalDict& fingerprint) {
        const Fingerprint here = ToFingerprint(fingerprint);
        return FormatResults(Knowledge{.records = ToRecords(records, here)}, here);
      },
      py::arg("records"), py::arg("fingerprint") = py::none(),
      "The document that holds `records`. ValueError: one of them is not valid.");
  module.def(
      "load_file",
      [](const std::filesystem::path& path, const OptionalDict& fingerprint) {
        const Fingerprint here = ToFingerprint(fingerprint);
        Result<LoadReport> report = [&] {
          const py::gil_scoped_release released;
          return LoadFile(path, here);
        }();
        if (!report.ok()) ThrowIfError(report.TakeStatus());
        return ToTuple(report.value(), here);
      },
      py::arg("path"), py::arg("fingerprint") = py::none());
  module.def(
      "save_file",
      [](const std::filesystem::path& path, const py::list& records,
         const OptionalDict& fingerprint) {
        const Fingerprint here = ToFingerprint(fingerprint);
        const Knowledge native{.records = ToRecords(records, here)};
        const Status status = [&] {
          const py::gil_scoped_release released;
          return SaveFile(path, native, here);
        }();
        ThrowIfError(status);
      },
      py::arg("path"), py::arg("records"), py::arg("fingerprint") = py::none(),
      "Merges `records` into the file.");
  module.def(
      "measure_load",
      [](const std::string& text, const OptionalDict& fingerprint) {
        const Fingerprint here = ToFingerprint(fingerprint);
        return ParseResults(text, "results", here).knowledge.records.size();
      },
      py::arg("text"), py::arg("fingerprint") = py::none(),
      "Number of records read; converts nothing to Python, to be timed.");

  py::class_<TestCache>(module, "SessionCache")
      .def(py::init<size_t>(), py::arg("capacity"))
      .def("put", &TestCache::Put, py::arg("problem"), py::arg("kernel"))
      .def("find", &TestCache::Find, py::arg("problem"))
      .def("erase", [](TestCache& c, const Problem& p) { return c.cache().Erase(p); })
      .def("clear", [](TestCache& c) { c.cache().Clear(); })
      .def("kernels",
           [](TestCache& c) {
             std::vector<std::string> kernels;
             for (const auto& entry : c.cache().Entries()) {
               kernels.push_back(entry->record.winner.kernel);
             }
             return kernels;
           })
      .def_property_readonly("capacity", [](TestCache& c) { return c.cache().capacity(); })
      .def_property_readonly("evicted", [](TestCache& c) { return c.cache().evicted(); })
      .def("__len__", [](TestCache& c) { return c.cache().size(); });
  module.def(
      "hammer_session_cache",
      [](int threads, double seconds, int64_t distinct, size_t capacity) {
        const HammerReport r = [&] {
          const py::gil_scoped_release released;
          return HammerCache(threads, seconds, distinct, capacity);
        }();
        py::dict d;
        d["finds"] = r.finds;
        d["hits"] = r.hits;
        d["writes"] = r.writes;
        d["wrong"] = r.wrong;
        d["live_peak"] = r.live_peak;
        d["live_at_end"] = r.live_at_end;
        d["evicted"] = r.evicted;
        d["size"] = r.size;
        return d;
      },
      py::arg("threads"), py::arg("seconds"), py::arg("distinct"), py::arg("capacity"));
  module.def("measure_find", &MeasureFind, py::arg("distinct"),
             py::call_guard<py::gil_scoped_release>());
}

}  // namespace tunableop::bindings
