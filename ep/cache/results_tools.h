// What tools do to documents of many machines: one merged into another, elements taken out. Pure
// functions; EditFile (cache/file_store.h) brings what they make into a file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "cache/file_store.h"
#include "cache/results_document.h"
#include "gemm/status.h"

namespace tunableop {

// Reads a file for ReadAllMachines. kNotFound: there is none; any other trouble is in `unusable`.
Result<AllMachines> ReadAllMachinesOf(const std::filesystem::path& path);

// What `there` becomes when `sources` are merged into it, one after another, by the rules of saves;
// but of `spent`, which a file that is merged again would bring again, the larger stays. Sections
// that nothing changes, and those of machines that are new in `there`, are copied word for word.
// Set aside: something of a changed section of `there` was not understood. Nothing: no source
// brings anything.
std::optional<Edited> MergeSources(const AllMachines& there, std::span<const AllMachines> sources);

// Elements of one machine, by their positions in its Knowledge.
struct Removal {
  size_t machine = 0;  // position in AllMachines::machines
  bool whole = false;  // all sections of the machine
  std::vector<size_t> entries;
  std::vector<size_t> seen;
  std::vector<size_t> nodes;
  std::vector<size_t> forms;
  std::vector<size_t> denied;
};

// What `there` is without them; other machines are copied word for word. Set aside: as above.
// kInvalidArgument: there is no such machine or element.
Result<Edited> RemoveElements(const AllMachines& there, std::span<const Removal> removals);

}  // namespace tunableop
