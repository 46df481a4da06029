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

// Adds `newer` to `there` by the rules of docs/tuning-results.md, "Merging". Denials whose time is
// over go.
void MergeKnowledge(const Knowledge& newer, Knowledge& there);

}  // namespace tunableop
