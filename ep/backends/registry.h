// Which libraries this process has. A new one is one file in its folder and one line in
// registry.cc.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gemm/backend.h"

namespace tunableop {

struct LibraryState {
  std::string library;  // "openblas"; the path, of a user's library that could not be loaded
  bool available = false;
  std::string identity;  // when available
  std::string path;      // the file it was loaded from; empty for built-in kernels
  std::string reason;    // when not available: one line for a person
};

// The CPU libraries that were found, the one that gives the default kernel first, those of
// TUNABLEOP_CANDIDATE_LIBRARIES last. Loaded at the first call, kept until the process ends.
// Thread-safe.
std::span<const std::shared_ptr<const Backend>> CpuBackends();

// One line for each library that the project knows, present or not.
std::vector<LibraryState> CpuLibraries();

// nullptr: not present.
std::shared_ptr<const Backend> FindCpuBackend(std::string_view library);

}  // namespace tunableop
