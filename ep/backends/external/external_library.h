// Libraries of kernels that a user brings, found and loaded at run time; nothing links to them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/external/candidate_library.h"
#include "gemm/status.h"

namespace tunableop::external {

// A library that was loaded and is what it should be. It stays loaded until the process ends.
struct ExternalLibrary {
  const TunableOpCandidateLibrary* functions = nullptr;
  std::string name;
  // What the library says, and the size and time of its file: who tries a kernel compiles often,
  // and forgets to count.
  std::string identity;
  std::string path;
  std::vector<std::string> kernels;  // names, by number
};

// The paths in TUNABLEOP_CANDIDATE_LIBRARIES, in their order; empty ones are skipped.
std::vector<std::string> CandidateLibraryPaths();

// Loads the library and runs code of it. kNotFound: it cannot be loaded, or lacks the entry point;
// kNotSupported: it was built for another version of candidate_library.h; kInvalidArgument: what it
// says of itself is impossible. A library that is refused is unloaded.
Result<ExternalLibrary> LoadExternalLibrary(const std::string& path);

}  // namespace tunableop::external
