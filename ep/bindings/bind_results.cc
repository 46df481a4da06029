// Files of tuning results as tools see them: every machine's section, with the names and keys that
// the native side gives its elements, so that no rule of the format is written down twice.
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/errors.h"
#include "cache/file_store.h"
#include "cache/knowledge_json.h"
#include "cache/knowledge_merge.h"
#include "cache/neighbours.h"
#include "cache/results_tools.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

std::string RangeOf(const Record& record) {
  if (record.m_low == 0 && record.m_high == 0) return "";
  return "M=" + std::to_string(record.m_low) + ".." + std::to_string(record.m_high);
}

// What two entries have in common when they are for the same thing.
std::string KeyText(const Record& record) {
  SeenRecord key;
  key.problem = KeyOf(record).problem;
  std::string text = RangeOf(record);
  AppendElement(key, text);
  return text;
}

std::string KeyText(const SeenRecord& seen) {
  SeenRecord key;
  key.problem = seen.problem;
  std::string text;
  AppendElement(key, text);
  return text;
}

template <typename T>
py::list Names(const std::vector<T>& elements) {
  py::list names;
  for (const T& element : elements) names.append(ToString(element.problem));
  return names;
}

template <typename T>
py::list Keys(const std::vector<T>& elements) {
  py::list keys;
  for (const T& element : elements) keys.append(KeyText(element));
  return keys;
}

// Of each problem that was met whether an entry serves it, its own or its bucket's.
py::list Measured(const Knowledge& knowledge) {
  std::unordered_set<RecordKey, RecordKeyHash> known;
  for (const Record& record : knowledge.records) known.insert(KeyOf(record));
  py::list measured;
  for (const SeenRecord& seen : knowledge.seen) {
    const MRange range = BucketOf(seen.problem.m);
    measured.append(known.contains({seen.problem}) ||
                    known.contains({WithoutM(seen.problem), range.low, range.high}));
  }
  return measured;
}

// Lines name fields as the file has them, cut after some bytes: what is no UTF-8 becomes U+FFFD.
py::str Text(const std::string& text) {
  PyObject* decoded =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (decoded == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(decoded);
}

py::list Texts(const std::vector<std::string>& lines) {
  py::list texts;
  for (const std::string& line : lines) texts.append(Text(line));
  return texts;
}

py::dict ToDict(const AllMachines& all) {
  py::list machines;
  for (const MachineSection& section : all.machines) {
    py::dict machine;
    machine["section"] = WriteSection(section.knowledge, section.machine);
    machine["entry_names"] = Names(section.knowledge.records);
    machine["entry_keys"] = Keys(section.knowledge.records);
    machine["seen_names"] = Names(section.knowledge.seen);
    machine["seen_keys"] = Keys(section.knowledge.seen);
    machine["seen_measured"] = Measured(section.knowledge);
    machine["lossy"] = section.lossy;
    machines.append(std::move(machine));
  }
  py::dict d;
  d["unusable"] = Text(all.unusable);
  d["machines"] = std::move(machines);
  d["unreadable"] = all.unreadable_sections.size();
  d["problems"] = Texts(all.problems);
  return d;
}

AllMachines ReadFile(const std::filesystem::path& path) {
  Result<AllMachines> all = [&path] {
    const py::gil_scoped_release release;
    return ReadAllMachinesOf(path);
  }();
  if (!all.ok()) ThrowIfError(all.TakeStatus());
  return std::move(all).value();
}

py::dict Read(const std::filesystem::path& path) { return ToDict(ReadFile(path)); }

py::tuple Load(const std::filesystem::path& path, const py::dict& fingerprint) {
  const Fingerprint here = {
      py::cast<std::string>(fingerprint["device"]), py::cast<std::string>(fingerprint["model"]),
      py::cast<std::string>(fingerprint["features"]), py::cast<int>(fingerprint["cores"])};
  Result<LoadReport> report = [&] {
    const py::gil_scoped_release release;
    return LoadFile(path, here);
  }();
  if (!report.ok()) ThrowIfError(report.TakeStatus());
  return py::make_tuple(WriteSection(report.value().knowledge, here),
                        Texts(report.value().problems));
}

// Reads, before the file is locked, what is to be merged; edits nothing when a source is unusable.
py::dict Merge(const std::filesystem::path& path,
               const std::vector<std::filesystem::path>& source_paths) {
  std::vector<AllMachines> sources;
  AllMachines before;
  AllMachines after;
  bool written = false;
  std::string set_aside;
  const auto editor = [&](const std::string& file, const std::string* old) {
    if (old != nullptr) before = ReadAllMachines(*old, file);
    std::optional<Edited> edited = MergeSources(before, sources);
    if (!edited) {
      after = before;
      return edited;
    }
    written = true;
    edited->set_aside |= old != nullptr && !old->empty() && !before.unusable.empty();
    after = ReadAllMachines(edited->content, file);
    return edited;
  };
  bool usable = true;
  for (const std::filesystem::path& source : source_paths) {
    sources.push_back(ReadFile(source));
    usable &= sources.back().unusable.empty();
  }
  if (usable) {
    Result<std::string> done = [&] {
      const py::gil_scoped_release release;
      return EditFile(path, editor);
    }();
    if (!done.ok()) ThrowIfError(done.TakeStatus());
    set_aside = std::move(done).value();
  }
  py::list source_dicts;
  for (const AllMachines& source : sources) source_dicts.append(ToDict(source));
  py::dict d;
  d["before"] = ToDict(before);
  d["after"] = ToDict(after);
  d["sources"] = std::move(source_dicts);
  d["written"] = written;
  d["set_aside"] = Text(set_aside);
  return d;
}

Removal ToRemoval(const py::dict& given) {
  const auto positions = [&given](const char* part) {
    return py::cast<std::vector<size_t>>(given[part]);
  };
  return {.machine = py::cast<size_t>(given["machine"]),
          .whole = py::cast<bool>(given["whole"]),
          .entries = positions("entries"),
          .seen = positions("seen"),
          .nodes = positions("nodes"),
          .forms = positions("forms"),
          .denied = positions("denied")};
}

// `choose` runs under the lock, so that what it saw is what is changed.
py::str Remove(const std::filesystem::path& path, const py::function& choose) {
  std::exception_ptr raised;
  Status refused;
  const auto editor = [&](const std::string& file,
                          const std::string* old) -> std::optional<Edited> {
    const AllMachines there = old != nullptr ? ReadAllMachines(*old, file) : AllMachines{};
    const py::gil_scoped_acquire acquire;
    try {
      std::vector<Removal> removals;
      for (const py::handle given : choose(ToDict(there))) {
        removals.push_back(ToRemoval(py::cast<py::dict>(given)));
      }
      if (removals.empty()) return std::nullopt;
      Result<Edited> edited = RemoveElements(there, removals);
      if (edited.ok()) return std::move(edited).value();
      refused = edited.TakeStatus();
    } catch (...) {
      raised = std::current_exception();
    }
    return std::nullopt;
  };
  Result<std::string> done = [&] {
    const py::gil_scoped_release release;
    return EditFile(path, editor);
  }();
  if (raised) std::rethrow_exception(raised);
  ThrowIfError(refused);
  if (!done.ok()) ThrowIfError(done.TakeStatus());
  return Text(done.value());
}

}  // namespace

void BindResults(py::module_& module) {
  module.def("read_results", &Read, py::arg("path"),
             "What a file holds, each section judged as its own machine would.");
  module.def("load_results", &Load, py::arg("path"), py::arg("fingerprint"),
             "What a session on that machine would take from the file, and what it would say.");
  module.def("merge_results", &Merge, py::arg("path"), py::arg("sources"),
             "Merges files into one, under its lock. Edits nothing when a source is unusable.");
  module.def("remove_results", &Remove, py::arg("path"), py::arg("choose"),
             "Takes out what `choose` names of what it is shown, under the file's lock; returns "
             "where the old file was set aside, if it was.");
}

}  // namespace tunableop::bindings
