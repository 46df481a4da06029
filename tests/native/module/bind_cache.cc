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
#include "cache/neighbours.h"
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

// Knowledge travels as the JSON of the document's section, so that Python sees its very fields and
// the one reader of the cache judges what comes from there.
py::dict ToSection(const Knowledge& knowledge, const Fingerprint& here) {
  const py::object document =
      py::module_::import("json").attr("loads")(FormatResults(knowledge, here));
  py::dict section = document["machines"][py::int_(0)];
  section.attr("pop")("fingerprint");
  return section;
}

Knowledge ToKnowledge(const py::dict& section, const Fingerprint& here) {
  py::dict machine = section.attr("copy")();
  machine["fingerprint"] = ToDict(here);
  machine.attr("setdefault")("entries", py::list());
  py::list machines;
  machines.append(machine);
  py::dict document;
  document["schema"] = kSchemaVersion;
  document["machines"] = machines;
  const auto text = py::cast<std::string>(py::module_::import("json").attr("dumps")(document));
  LoadReport report = ParseResults(text, "records", here);
  if (!report.problems.empty()) throw py::value_error(report.problems.front());
  return std::move(report.knowledge);
}

Knowledge ToKnowledge(const py::list& records, const Fingerprint& here) {
  py::dict section;
  section["entries"] = records;
  return ToKnowledge(section, here);
}

py::tuple ToTuple(const LoadReport& report, const Fingerprint& here) {
  return py::make_tuple(ToSection(report.knowledge, here)["entries"], report.problems);
}

LoadReport Load(const std::filesystem::path& path, const Fingerprint& here) {
  Result<LoadReport> report = [&] {
    const py::gil_scoped_release released;
    return LoadFile(path, here);
  }();
  if (!report.ok()) ThrowIfError(report.TakeStatus());
  return std::move(report).value();
}

void Save(const std::filesystem::path& path, const Knowledge& knowledge, const Fingerprint& here) {
  const Status status = [&] {
    const py::gil_scoped_release released;
    return SaveFile(path, knowledge, here);
  }();
  ThrowIfError(status);
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
        return FormatResults(ToKnowledge(records, here), here);
      },
      py::arg("records"), py::arg("fingerprint") = py::none(),
      "The document that holds `records`. ValueError: one of them is not valid.");
  module.def(
      "load_file",
      [](const std::filesystem::path& path, const OptionalDict& fingerprint) {
        const Fingerprint here = ToFingerprint(fingerprint);
        return ToTuple(Load(path, here), here);
      },
      py::arg("path"), py::arg("fingerprint") = py::none());
  module.def(
      "save_file",
      [](const std::filesystem::path& path, const py::list& records,
         const OptionalDict& fingerprint) {
        const Fingerprint here = ToFingerprint(fingerprint);
        Save(path, ToKnowledge(records, here), here);
      },
      py::arg("path"), py::arg("records"), py::arg("fingerprint") = py::none(),
      "Merges `records` into the file.");
  module.def(
      "parse_knowledge",
      [](const std::string& text, const std::string& origin, const OptionalDict& fingerprint) {
        const Fingerprint here = ToFingerprint(fingerprint);
        const LoadReport report = ParseResults(text, origin, here);
        return py::make_tuple(ToSection(report.knowledge, here), report.problems);
      },
      py::arg("text"), py::arg("origin") = "results", py::arg("fingerprint") = py::none(),
      "(this machine's section without its fingerprint, problems) of a document.");
  module.def(
      "load_knowledge",
      [](const std::filesystem::path& path, const OptionalDict& fingerprint) {
        const Fingerprint here = ToFingerprint(fingerprint);
        const LoadReport report = Load(path, here);
        return py::make_tuple(ToSection(report.knowledge, here), report.problems);
      },
      py::arg("path"), py::arg("fingerprint") = py::none());
  module.def(
      "save_knowledge",
      [](const std::filesystem::path& path, const py::dict& section,
         const OptionalDict& fingerprint) {
        const Fingerprint here = ToFingerprint(fingerprint);
        Save(path, ToKnowledge(section, here), here);
      },
      py::arg("path"), py::arg("section"), py::arg("fingerprint") = py::none(),
      "Merges a section without its fingerprint into the file.");
  module.def(
      "measure_load",
      [](const std::string& text, const OptionalDict& fingerprint) {
        const Fingerprint here = ToFingerprint(fingerprint);
        return ParseResults(text, "results", here).knowledge.records.size();
      },
      py::arg("text"), py::arg("fingerprint") = py::none(),
      "Number of records read; converts nothing to Python, to be timed.");

  module.def("bucket_of", [](int64_t m) {
    const MRange range = BucketOf(m);
    return py::make_tuple(range.low, range.high);
  });
  py::class_<Neighbours>(module, "Neighbours")
      .def(py::init<size_t>(), py::arg("capacity"))
      .def(
          "put",
          [](Neighbours& n, const Problem& problem, const std::string& kernel, int64_t m_low,
             int64_t m_high) {
            Record record;
            record.problem = problem;
            record.winner.kernel = kernel;
            record.m_low = m_low;
            record.m_high = m_high;
            n.Put(record);
          },
          py::arg("problem"), py::arg("kernel"), py::arg("m_low") = 0, py::arg("m_high") = 0)
      .def("erase", &Neighbours::Erase, py::arg("problem"))
      .def("erase_bucket", &Neighbours::EraseBucket, py::arg("problem"))
      .def("clear", &Neighbours::Clear)
      .def(
          "nearest",
          [](const Neighbours& n, const Problem& problem) -> std::optional<std::string> {
            const std::optional<Candidate> winner = n.Nearest(problem);
            if (!winner) return std::nullopt;
            return winner->kernel;
          },
          py::arg("problem"), "Name of the winner's kernel.")
      .def(
          "bucket",
          [](const Neighbours& n, const Problem& problem) -> std::optional<std::string> {
            const std::optional<Record> record = n.Bucket(problem);
            if (!record) return std::nullopt;
            return record->winner.kernel;
          },
          py::arg("problem"), "Name of the winner's kernel.")
      .def_property_readonly("capacity", &Neighbours::capacity)
      .def("__len__", &Neighbours::size);

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
  module.def("measure_find", &MeasureFind, py::arg("distinct"), py::arg("used"),
             py::call_guard<py::gil_scoped_release>());
  module.def("measure_put", &MeasurePut, py::arg("capacity"),
             py::call_guard<py::gil_scoped_release>());
}

}  // namespace tunableop::bindings
