// The document as a whole: machines, each with a fingerprint and entries. Private to this room.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/fingerprint.h"
#include "cache/knowledge.h"

namespace tunableop {

struct ResultsDocument {
  // Why the document cannot be used at all (not JSON, another schema ...); empty when it can.
  std::string unusable;
  // An entry of this machine was dropped: rewriting the file would lose it.
  bool lossy = false;
  // Of this machine, merged: one record for each problem, the newest.
  Knowledge knowledge;
  // Sections of other machines, as JSON, to be kept when the file is rewritten.
  std::vector<std::string> foreign_sections;
  // One line for each entry or section that is not used.
  std::vector<std::string> problems;
};

ResultsDocument ReadDocument(std::string_view json, std::string_view origin,
                             const Fingerprint& here);
std::string WriteDocument(const Knowledge& knowledge, const Fingerprint& here,
                          std::span<const std::string> foreign_sections);

// One machine of a document that may hold many.
struct MachineSection {
  Fingerprint machine;
  Knowledge knowledge;  // merged, where the document has several sections of the machine
  std::vector<std::string> as_written;  // these sections as JSON, numbers as they were written
  bool lossy = false;                   // an element was dropped: `knowledge` is not all there was
};

// For tools that look after files of many machines: every section judged as the machine that it
// belongs to would judge it.
struct AllMachines {
  std::string unusable;  // as in ResultsDocument
  std::vector<MachineSection> machines;
  std::vector<std::string> unreadable_sections;  // of nobody knows which machine, as JSON
  std::vector<std::string> problems;             // one line for each element or section refused
};

AllMachines ReadAllMachines(std::string_view json, std::string_view origin);

// A machine's section, and a document of sections.
std::string WriteSection(const Knowledge& knowledge, const Fingerprint& machine);
std::string WriteSections(std::span<const std::string> sections);

// Adds `newer` to `there` by the rules of docs/tuning-results.md, "Merging". Denials whose time is
// over go.
void MergeKnowledge(const Knowledge& newer, Knowledge& there);

}  // namespace tunableop
