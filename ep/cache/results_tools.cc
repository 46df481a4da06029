#include "cache/results_tools.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cache/atomic_file.h"

namespace tunableop {
namespace {

// A machine's section on its way into the new document.
struct Held {
  MachineSection section;
  std::string before;   // as WriteSection had it; empty: to be written anew in any case
  bool is_new = false;  // not in the document that others are merged into
};

Held* Find(std::vector<Held>& all, const Fingerprint& machine) {
  const auto it = std::find_if(all.begin(), all.end(), [&machine](const Held& held) {
    return held.section.machine == machine;
  });
  return it == all.end() ? nullptr : &*it;
}

// So that the sum which merging makes is the larger of the two.
void KeepLargerSpent(const SpentRecord& there, SpentRecord& newer) {
  if (newer.day == there.day) newer.ms = std::max(0.0, newer.ms - there.ms);
}

void AddTo(std::vector<Held>& all, const MachineSection& coming) {
  Held* held = Find(all, coming.machine);
  if (held == nullptr) {
    // What was not understood stays behind: this file's next reader would drop it, too.
    const bool whole = !coming.lossy;
    all.push_back({coming, whole ? WriteSection(coming.knowledge, coming.machine) : "", true});
    all.back().section.lossy = false;
    return;
  }
  Knowledge newer = coming.knowledge;
  KeepLargerSpent(held->section.knowledge.spent, newer.spent);
  MergeKnowledge(newer, held->section.knowledge);
}

template <typename T>
bool Erase(std::vector<T>& items, std::vector<size_t> positions) {
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  if (!positions.empty() && positions.back() >= items.size()) return false;
  std::vector<T> kept;
  kept.reserve(items.size() - positions.size());
  auto next = positions.begin();
  for (size_t i = 0; i < items.size(); ++i) {
    if (next != positions.end() && *next == i) {
      ++next;
    } else {
      kept.push_back(std::move(items[i]));
    }
  }
  items = std::move(kept);
  return true;
}

void Append(std::vector<std::string> sections, std::vector<std::string>& out) {
  for (std::string& section : sections) out.push_back(std::move(section));
}

}  // namespace

Result<AllMachines> ReadAllMachinesOf(const std::filesystem::path& path) {
  Result<std::string> content = ReadWholeFile(path.native());
  if (content.ok()) return ReadAllMachines(content.value(), path.native());
  if (content.status().code() == StatusCode::kNotFound) return content.TakeStatus();
  AllMachines all;
  all.unusable = std::string(content.status().message());
  all.problems.push_back(all.unusable + "; document ignored");
  return all;
}

std::optional<Edited> MergeSources(const AllMachines& there, std::span<const AllMachines> sources) {
  std::vector<Held> all;
  for (const MachineSection& section : there.machines) {
    all.push_back({section, WriteSection(section.knowledge, section.machine), false});
  }
  for (const AllMachines& source : sources) {
    for (const MachineSection& section : source.machines) AddTo(all, section);
  }
  Edited edited;
  bool changed = false;
  std::vector<std::string> sections;
  for (Held& held : all) {
    std::string after = WriteSection(held.section.knowledge, held.section.machine);
    const bool same = after == held.before;
    changed |= held.is_new || !same;
    if (same) {
      Append(std::move(held.section.as_written), sections);
    } else {
      edited.set_aside |= held.section.lossy;
      sections.push_back(std::move(after));
    }
  }
  if (!changed) return std::nullopt;
  Append(there.unreadable_sections, sections);
  edited.content = WriteSections(sections);
  return edited;
}

Result<Edited> RemoveElements(const AllMachines& there, std::span<const Removal> removals) {
  std::vector<std::string> sections;
  Edited edited;
  for (size_t i = 0; i < there.machines.size(); ++i) {
    MachineSection section = there.machines[i];
    bool whole = false;
    bool changed = false;
    for (const Removal& removal : removals) {
      if (removal.machine != i) continue;
      changed = true;
      whole |= removal.whole;
      Knowledge& knowledge = section.knowledge;
      if (!Erase(knowledge.records, removal.entries) || !Erase(knowledge.seen, removal.seen) ||
          !Erase(knowledge.nodes, removal.nodes) || !Erase(knowledge.forms, removal.forms) ||
          !Erase(knowledge.denied, removal.denied)) {
        return Status(StatusCode::kInvalidArgument, "there is no such element to remove");
      }
    }
    if (whole) continue;
    if (changed) {
      edited.set_aside |= section.lossy;
      sections.push_back(WriteSection(section.knowledge, section.machine));
    } else {
      Append(std::move(section.as_written), sections);
    }
  }
  const bool unknown = std::any_of(
      removals.begin(), removals.end(),
      [&there](const Removal& removal) { return removal.machine >= there.machines.size(); });
  if (unknown) return Status(StatusCode::kInvalidArgument, "there is no such machine to remove");
  Append(there.unreadable_sections, sections);
  edited.content = WriteSections(sections);
  return edited;
}

}  // namespace tunableop
