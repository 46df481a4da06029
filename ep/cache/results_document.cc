#include "cache/results_document.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "cache/file_store.h"
#include "cache/json_tree.h"
#include "cache/knowledge_json.h"
#include "cache/knowledge_merge.h"
#include "cache/record_json.h"

namespace tunableop {
namespace {

using Kind = JsonTree::Kind;

int64_t UnixSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

constexpr int64_t kSecondsOfADay = 24 * 60 * 60;
constexpr int kOldestSchema = 1;    // has entries only
constexpr int kSectionsSchema = 2;  // has the other sections of a machine

struct Section {
  const JsonTree::Node* fingerprint = nullptr;
  const JsonTree::Node* entries = nullptr;
  const JsonTree::Node* seen = nullptr;
  const JsonTree::Node* nodes = nullptr;
  const JsonTree::Node* forms = nullptr;
  const JsonTree::Node* denied = nullptr;
  const JsonTree::Node* spent = nullptr;

  // nullptr: there is no such member in this version.
  const JsonTree::Node** Place(std::string_view name, int schema) {
    if (name == "fingerprint") return &fingerprint;
    if (name == "entries") return &entries;
    if (schema < kSectionsSchema) return nullptr;
    if (name == "seen") return &seen;
    if (name == "nodes") return &nodes;
    if (name == "forms") return &forms;
    if (name == "denied") return &denied;
    if (name == "spent") return &spent;
    return nullptr;
  }
};

// A machine's sections while they are read.
struct OpenMachine {
  explicit OpenMachine(const Fingerprint& machine)
      : section{.machine = machine, .knowledge = {}, .as_written = {}, .lossy = false},
        merger(section.knowledge) {}
  OpenMachine(const OpenMachine&) = delete;
  OpenMachine& operator=(const OpenMachine&) = delete;

  MachineSection section;
  KnowledgeMerger merger;
};

class Reader {
 public:
  // Reads the sections of `here` into document.knowledge; without `here` each machine's into
  // machines(), and document.knowledge stays empty.
  Reader(const JsonTree& tree, std::string_view origin, const Fingerprint* here,
         ResultsDocument& document)
      : tree_(tree),
        origin_(origin),
        here_(here),
        document_(document),
        merger_of_here_(document.knowledge) {}

  // Sets document_.unusable when the document is not one of ours.
  void Read() {
    const JsonTree::Node& root = tree_.root();
    if (root.kind != Kind::kObject) return Refuse("expected an object, found " + Found(root));
    const JsonTree::Node* schema = nullptr;
    const JsonTree::Node* machines = nullptr;
    for (JsonTree::Index i = root.first_child; i != JsonTree::kNone; i = tree_.at(i).next) {
      const JsonTree::Node& member = tree_.at(i);
      const std::string_view name = tree_.key(member);
      if (name == "producer") continue;  // for people
      const JsonTree::Node** place = nullptr;
      if (name == "schema") place = &schema;
      if (name == "machines") place = &machines;
      if (place == nullptr) continue;  // judged below, once the schema is known
      if (*place != nullptr) return Refuse(std::string(name) + ": expected once, found twice");
      *place = &member;
    }
    const std::string version =
        std::to_string(kOldestSchema) + " or " + std::to_string(kSchemaVersion);
    if (schema == nullptr) return Refuse("schema: expected " + version + ", found nothing");
    if (schema->kind != Kind::kInteger || schema->integer < kOldestSchema ||
        schema->integer > kSchemaVersion) {
      return Refuse("schema: expected " + version + ", found " + Found(*schema));
    }
    schema_ = static_cast<int>(schema->integer);
    if (machines == nullptr) return Refuse("machines: expected an array, found nothing");
    if (machines->kind != Kind::kArray) {
      return Refuse("machines: expected an array, found " + Found(*machines));
    }
    for (JsonTree::Index i = root.first_child; i != JsonTree::kNone; i = tree_.at(i).next) {
      const std::string name(tree_.key(tree_.at(i)).substr(0, 40));
      if (name != "producer" && name != "schema" && name != "machines") {
        return Refuse(name + ": expected no such field, found " + Found(tree_.at(i)));
      }
    }
    size_t index = 0;
    for (JsonTree::Index i = machines->first_child; i != JsonTree::kNone; i = tree_.at(i).next) {
      ReadSection(tree_.at(i), "machines[" + std::to_string(index++) + "]");
    }
  }

  // In the order of the document. Addresses are stable: mergers point into it.
  std::deque<OpenMachine>& machines() { return machines_; }

 private:
  void Refuse(std::string why) { document_.unusable = std::move(why); }
  std::string Found(const JsonTree::Node& node) const { return tree_.Print(node, 40); }

  // A section that cannot be used is kept for whoever can.
  void KeepSection(const JsonTree::Node& section, const std::string& path, const std::string& why) {
    document_.problems.push_back(std::string(origin_) + ": " + path + why);
    document_.foreign_sections.push_back(tree_.Print(section));
  }

  void ReadSection(const JsonTree::Node& section, const std::string& path) {
    const auto ignored = [&](const std::string& why) {
      KeepSection(section, path, why + "; section ignored");
    };
    if (section.kind != Kind::kObject) {
      return ignored(": expected an object, found " + Found(section));
    }
    Section parts;
    for (JsonTree::Index i = section.first_child; i != JsonTree::kNone; i = tree_.at(i).next) {
      const JsonTree::Node& member = tree_.at(i);
      const std::string name(tree_.key(member).substr(0, 40));
      const JsonTree::Node** place = parts.Place(name, schema_);
      if (place == nullptr) {
        return ignored("." + name + ": expected no such field, found " + Found(member));
      }
      if (*place != nullptr) return ignored("." + name + ": expected once, found twice");
      *place = &member;
    }
    if (parts.fingerprint == nullptr) {
      return ignored(".fingerprint: expected an object, found nothing");
    }
    if (parts.entries == nullptr) return ignored(".entries: expected an array, found nothing");
    Fingerprint machine;
    std::string problem;
    if (!ReadFingerprint(tree_, *parts.fingerprint, machine, problem)) {
      return ignored(".fingerprint" + problem);
    }
    if (parts.entries->kind != Kind::kArray) {
      return ignored(".entries: expected an array, found " + Found(*parts.entries));
    }
    if (here_ == nullptr) {
      OpenMachine& open = Open(machine);
      open.section.as_written.push_back(tree_.Print(section));
      merger_ = &open.merger;
      lossy_ = &open.section.lossy;
    } else if (machine != *here_) {
      return KeepSection(section, path,
                         ".fingerprint." + Difference(*here_, machine) + "; " +
                             Count(*parts.entries) + " of another machine ignored");
    }
    ReadArray<Record>(parts.entries, path + ".entries", "entry");
    ReadArray<SeenRecord>(parts.seen, path + ".seen", "problem");
    ReadArray<NodeRecord>(parts.nodes, path + ".nodes", "node");
    ReadArray<FormRecord>(parts.forms, path + ".forms", "form");
    ReadArray<DeniedRecord>(parts.denied, path + ".denied", "denial");
    if (parts.spent != nullptr) {
      ReadOne<SpentRecord>(*parts.spent, path + ".spent", std::nullopt, "time");
    }
  }

  OpenMachine& Open(const Fingerprint& machine) {
    OpenMachine*& open =
        open_[std::tuple(machine.device, machine.model, machine.features, machine.cores)];
    if (open == nullptr) open = &machines_.emplace_back(machine);
    return *open;
  }

  // A clock that was ahead once would keep all later measurements out.
  void Judge(Record& record) const { record.measured_at = std::min(record.measured_at, now_); }
  void Judge(SeenRecord&) const {}
  void Judge(NodeRecord& node) const { node.measured_at = std::min(node.measured_at, now_); }
  void Judge(FormRecord& form) const { form.measured_at = std::min(form.measured_at, now_); }
  void Judge(DeniedRecord& denied) const { denied.denied_at = std::min(denied.denied_at, now_); }
  void Judge(SpentRecord& spent) const { spent.day = std::min(spent.day, now_ / kSecondsOfADay); }

  bool ReadOf(const JsonTree::Node& node, Record& record, std::string& problem) const {
    return ReadRecord(tree_, node, schema_, record, problem);
  }
  template <typename T>
  bool ReadOf(const JsonTree::Node& node, T& element, std::string& problem) const {
    return ReadElement(tree_, node, element, problem);
  }

  void Drop(const std::string& path, const std::string& problem, const char* what) {
    *lossy_ = true;
    document_.problems.push_back(std::string(origin_) + ": " + path + problem + "; " + what +
                                 " ignored");
  }

  template <typename T>
  void ReadOne(const JsonTree::Node& node, const std::string& path, std::optional<size_t> index,
               const char* what) {
    T element;
    std::string problem;
    if (ReadOf(node, element, problem)) {
      Judge(element);
      merger_->Add(std::move(element));
    } else {
      Drop(index ? path + '[' + std::to_string(*index) + ']' : path, problem, what);
    }
  }

  template <typename T>
  void ReadArray(const JsonTree::Node* array, const std::string& path, const char* what) {
    if (array == nullptr) return;
    if (array->kind != Kind::kArray) {
      return Drop(path, ": expected an array, found " + Found(*array), "part");
    }
    size_t index = 0;
    for (JsonTree::Index i = array->first_child; i != JsonTree::kNone; i = tree_.at(i).next) {
      ReadOne<T>(tree_.at(i), path, index++, what);
    }
  }

  std::string Count(const JsonTree::Node& array) const {
    size_t count = 0;
    for (JsonTree::Index i = array.first_child; i != JsonTree::kNone; i = tree_.at(i).next) ++count;
    return std::to_string(count) + (count == 1 ? " entry" : " entries");
  }

  const JsonTree& tree_;
  const std::string_view origin_;
  const Fingerprint* here_;
  ResultsDocument& document_;
  KnowledgeMerger merger_of_here_;
  std::deque<OpenMachine> machines_;
  std::map<std::tuple<std::string, std::string, std::string, int>, OpenMachine*> open_;
  // Where the section goes that is being read.
  KnowledgeMerger* merger_ = &merger_of_here_;
  bool* lossy_ = &document_.lossy;
  int schema_ = kSchemaVersion;
  const int64_t now_ = UnixSeconds();
};

bool Writable(const SeenRecord&) { return true; }

// Nothing where there is nothing: a file without such things looks as it did before they existed.
template <typename T>
void AppendArray(const char* name, const std::vector<T>& elements, std::string& out) {
  bool first = true;
  for (const T& element : elements) {
    if (!Writable(element)) continue;
    out += first ? ",\n\"" + std::string(name) + "\": [\n" : ",\n";
    first = false;
    AppendElement(element, out);
  }
  if (!first) out += "\n]";
}

// Without `here` the machines are moved to `machines`.
ResultsDocument Read(std::string_view json, std::string_view origin, const Fingerprint* here,
                     std::vector<MachineSection>& machines) {
  ResultsDocument document;
  if (json.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    document.unusable = "expected a JSON document, found an empty one";
  } else {
    Result<JsonTree> tree = JsonTree::Parse(json);
    if (tree.ok()) {
      Reader reader(tree.value(), origin, here, document);
      reader.Read();
      for (OpenMachine& open : reader.machines()) machines.push_back(std::move(open.section));
    } else {
      document.unusable =
          "expected a JSON document, found damage: " + std::string(tree.status().message());
    }
  }
  if (!document.unusable.empty()) {
    document.problems.push_back(std::string(origin) + ": " + document.unusable +
                                "; document ignored");
  }
  return document;
}

}  // namespace

ResultsDocument ReadDocument(std::string_view json, std::string_view origin,
                             const Fingerprint& here) {
  std::vector<MachineSection> none;
  return Read(json, origin, &here, none);
}

AllMachines ReadAllMachines(std::string_view json, std::string_view origin) {
  AllMachines all;
  ResultsDocument document = Read(json, origin, nullptr, all.machines);
  all.unusable = std::move(document.unusable);
  all.unreadable_sections = std::move(document.foreign_sections);
  all.problems = std::move(document.problems);
  return all;
}

std::string WriteSection(const Knowledge& knowledge, const Fingerprint& machine) {
  std::string out = "{\"fingerprint\": ";
  out.reserve(out.size() + knowledge.records.size() * 1024);
  AppendFingerprint(machine, out);
  out += ",\n\"entries\": [";
  for (const Record& record : knowledge.records) {
    out += out.back() == '[' ? "\n" : ",\n";
    AppendRecord(record, out);
  }
  out += "\n]";
  AppendArray("seen", knowledge.seen, out);
  AppendArray("nodes", knowledge.nodes, out);
  AppendArray("forms", knowledge.forms, out);
  AppendArray("denied", knowledge.denied, out);
  if (knowledge.spent.day != 0) {
    out += ",\n\"spent\": ";
    AppendElement(knowledge.spent, out);
  }
  out += '}';
  return out;
}

std::string WriteSections(std::span<const std::string> sections) {
  std::string out = "{\n\"schema\": " + std::to_string(kSchemaVersion) + ",\n\"producer\": ";
  AppendJsonString("onnxruntime-ep-tunableop " TUNABLEOP_VERSION, out);
  out += ",\n\"machines\": [";
  for (const std::string& section : sections) {
    out += out.back() == '[' ? "\n" : ",\n";
    out += section;
  }
  out += "\n]\n}\n";
  return out;
}

std::string WriteDocument(const Knowledge& knowledge, const Fingerprint& here,
                          std::span<const std::string> foreign_sections) {
  std::vector<std::string> sections = {WriteSection(knowledge, here)};
  sections.insert(sections.end(), foreign_sections.begin(), foreign_sections.end());
  return WriteSections(sections);
}

void MergeKnowledge(const Knowledge& newer, Knowledge& there) {
  KnowledgeMerger merger(there);
  for (const Record& record : newer.records) merger.Add(record);
  for (const SeenRecord& seen : newer.seen) merger.Add(seen);
  for (const NodeRecord& node : newer.nodes) merger.Add(node);
  for (const FormRecord& form : newer.forms) merger.Add(form);
  for (const DeniedRecord& denied : newer.denied) merger.Add(denied);
  merger.Add(newer.spent);
  const int64_t now = UnixSeconds();
  std::erase_if(there.denied,
                [now](const DeniedRecord& d) { return d.until != 0 && d.until < now; });
}

}  // namespace tunableop
