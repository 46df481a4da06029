#include "cache/results_document.h"

#include <algorithm>
#include <chrono>
#include <unordered_map>
#include <utility>

#include "cache/file_store.h"
#include "cache/json_tree.h"
#include "cache/record_json.h"

namespace tunableop {
namespace {

using Kind = JsonTree::Kind;

struct ProblemHash {
  size_t operator()(const Problem& problem) const noexcept { return Hash(problem); }
};

int64_t UnixSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Collects records so that each problem has one.
class Merger {
 public:
  explicit Merger(std::vector<Record>& records) : records_(records) {
    for (size_t i = 0; i < records_.size(); ++i) position_.emplace(records_[i].problem, i);
  }
  void Add(Record record) {
    const auto [it, is_new] = position_.emplace(record.problem, records_.size());
    if (is_new) {
      records_.push_back(std::move(record));
    } else if (Replaces(record, records_[it->second])) {
      records_[it->second] = std::move(record);
    }
  }

 private:
  // The later one, but what a race found is worth more than a default kept for want of time.
  static bool Replaces(const Record& later, const Record& there) {
    const bool raced = later.budget_ms == 0.0;
    if (raced != (there.budget_ms == 0.0) && later.library_identity == there.library_identity) {
      return raced;
    }
    return later.measured_at >= there.measured_at;
  }

  std::vector<Record>& records_;
  std::unordered_map<Problem, size_t, ProblemHash> position_;
};

class Reader {
 public:
  Reader(const JsonTree& tree, std::string_view origin, const Fingerprint& here,
         ResultsDocument& document)
      : tree_(tree),
        origin_(origin),
        here_(here),
        document_(document),
        merger_(document.knowledge.records) {}

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
    const std::string version = std::to_string(kSchemaVersion);
    if (schema == nullptr) return Refuse("schema: expected " + version + ", found nothing");
    if (schema->kind != Kind::kInteger || schema->integer != kSchemaVersion) {
      return Refuse("schema: expected " + version + ", found " + Found(*schema));
    }
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
    const JsonTree::Node* fingerprint = nullptr;
    const JsonTree::Node* entries = nullptr;
    for (JsonTree::Index i = section.first_child; i != JsonTree::kNone; i = tree_.at(i).next) {
      const JsonTree::Node& member = tree_.at(i);
      const std::string name(tree_.key(member).substr(0, 40));
      if (name != "fingerprint" && name != "entries") {
        return ignored("." + name + ": expected no such field, found " + Found(member));
      }
      const JsonTree::Node*& place = name == "entries" ? entries : fingerprint;
      if (place != nullptr) return ignored("." + name + ": expected once, found twice");
      place = &member;
    }
    if (fingerprint == nullptr) return ignored(".fingerprint: expected an object, found nothing");
    if (entries == nullptr) return ignored(".entries: expected an array, found nothing");
    Fingerprint machine;
    std::string problem;
    if (!ReadFingerprint(tree_, *fingerprint, machine, problem)) {
      return ignored(".fingerprint" + problem);
    }
    if (entries->kind != Kind::kArray) {
      return ignored(".entries: expected an array, found " + Found(*entries));
    }
    if (machine != here_) {
      return KeepSection(section, path,
                         ".fingerprint." + Difference(here_, machine) + "; " + Count(*entries) +
                             " of another machine ignored");
    }
    size_t index = 0;
    for (JsonTree::Index i = entries->first_child; i != JsonTree::kNone; i = tree_.at(i).next) {
      Record record;
      if (ReadRecord(tree_, tree_.at(i), record, problem)) {
        // A clock that was ahead once would keep all later measurements out.
        record.measured_at = std::min(record.measured_at, now_);
        merger_.Add(std::move(record));
      } else {
        document_.lossy = true;
        document_.problems.push_back(std::string(origin_) + ": " + path + ".entries[" +
                                     std::to_string(index) + "]" + problem + "; entry ignored");
      }
      ++index;
    }
  }

  std::string Count(const JsonTree::Node& array) const {
    size_t count = 0;
    for (JsonTree::Index i = array.first_child; i != JsonTree::kNone; i = tree_.at(i).next) ++count;
    return std::to_string(count) + (count == 1 ? " entry" : " entries");
  }

  const JsonTree& tree_;
  const std::string_view origin_;
  const Fingerprint& here_;
  ResultsDocument& document_;
  Merger merger_;
  const int64_t now_ = UnixSeconds();
};

}  // namespace

ResultsDocument ReadDocument(std::string_view json, std::string_view origin,
                             const Fingerprint& here) {
  ResultsDocument document;
  if (json.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    document.unusable = "expected a JSON document, found an empty one";
  } else {
    Result<JsonTree> tree = JsonTree::Parse(json);
    if (tree.ok()) {
      Reader(tree.value(), origin, here, document).Read();
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

std::string WriteDocument(const Knowledge& knowledge, const Fingerprint& here,
                          std::span<const std::string> foreign_sections) {
  std::string out = "{\n\"schema\": " + std::to_string(kSchemaVersion) + ",\n\"producer\": ";
  AppendJsonString("onnxruntime-ep-tunableop " TUNABLEOP_VERSION, out);
  out += ",\n\"machines\": [\n{\"fingerprint\": ";
  out.reserve(out.size() + knowledge.records.size() * 1024);
  AppendFingerprint(here, out);
  out += ",\n\"entries\": [";
  for (const Record& record : knowledge.records) {
    out += out.back() == '[' ? "\n" : ",\n";
    AppendRecord(record, out);
  }
  out += "\n]}";
  for (const std::string& section : foreign_sections) {
    out += ",\n";
    out += section;
  }
  out += "\n]\n}\n";
  return out;
}

void MergeKnowledge(const Knowledge& newer, Knowledge& there) {
  Merger merger(there.records);
  for (const Record& record : newer.records) merger.Add(record);
}

}  // namespace tunableop
