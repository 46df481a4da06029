// Where the files of a vendor's libraries may lie. Looks at names only: nothing is loaded here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/gpu/vendor_library.h"

namespace tunableop {

// What the search depends on, beside the file system.
struct VendorSurroundings {
  std::string chosen;                 // TUNABLEOP_CUDA_PATH, TUNABLEOP_ROCM_PATH
  std::vector<std::string> installs;  // the vendor's own variables: CUDA_PATH, ROCM_PATH ...
  std::string own_library;            // the file that this code is in; empty: not known
  std::string root;                   // put before /usr/local and /opt; for tests
};

// This process's. The environment is read once.
const VendorSurroundings& OwnSurroundings(Vendor vendor);

// "TUNABLEOP_CUDA_PATH".
const char* ChosenVariable(Vendor vendor) noexcept;

// Existing folders, each once, in the order of the search.
std::vector<std::string> ChosenFolders(const VendorSurroundings& surroundings);
std::vector<std::string> InstallFolders(Vendor vendor, const VendorSurroundings& surroundings);
std::vector<std::string> PackageFolders(Vendor vendor, const VendorSurroundings& surroundings);

// How well a file's name, without folders, fits "libcudart.so.13".
enum class NameFit : uint8_t {
  kNo,
  kUnversioned,  // "libcudart.so", "libcudart-1f0a37b4.so": packages that strip versions do that
  kHashed,       // "libcudart-1f0a37b4.so.13.0.48": what auditwheel does
  kExact,        // "libcudart.so.13", "libcudart.so.13.0.48"
};
NameFit FitOf(std::string_view file, std::string_view soname) noexcept;

// Files of `names` that fit, the best first: by the order of `sonames`, then by how well. Indices.
std::vector<size_t> FittingFiles(std::span<const std::string> names,
                                 std::span<const char* const> sonames);

}  // namespace tunableop
