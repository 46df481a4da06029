// Finds and loads a vendor's shared library at run time. Its absence is normal.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gemm/status.h"

namespace tunableop {

enum class Vendor : uint8_t { kNvidia, kAmd };

struct VendorSurroundings;  // vendor_search.h

// Loaded for good: never unloaded, since kernels of it may still run when a process ends. Cheap to
// copy.
class VendorLibrary {
 public:
  // `sonames` in the order of preference ("libcublasLt.so.13", "libcublasLt.so.12" ...). Where it
  // looks, in this order, each place for all the names:
  //   1. what the process has loaded already, under any path;
  //   2. the folders of TUNABLEOP_CUDA_PATH or TUNABLEOP_ROCM_PATH (':' between them; each itself,
  //      its lib and its lib64). When the variable is set and not empty, only 1 and 2: so a
  //      deployment says what is to be used, and nothing else is;
  //   3. the loader's own path;
  //   4. install folders: CUDA_PATH, CUDA_HOME, /usr/local/cuda*; ROCM_PATH, ROCM_HOME, /opt/rocm*;
  //   5. the vendor's Python packages beside ours, and torch's copies.
  // A file without a version in its name (libamdhip64.so, libcudart-1f0a37b4.so) fits where the
  // name it has inside has none either, or one that was asked for.
  // kNotFound: where it looked. kNotSupported: found, and the loader refused it, and why.
  static Result<VendorLibrary> Load(Vendor vendor, std::span<const char* const> sonames);
  // The same, in other surroundings than this process's.
  static Result<VendorLibrary> Load(Vendor vendor, std::span<const char* const> sonames,
                                    const VendorSurroundings& surroundings);

  // Null: there is no such symbol.
  void* Symbol(const char* name) const noexcept;
  const std::string& path() const noexcept { return path_; }

 private:
  friend class VendorSearch;
  VendorLibrary() = default;

  void* handle_ = nullptr;
  std::string path_;
};

// Folders of install step 4 and 5, for messages and tests.
std::vector<std::string> VendorFolders(Vendor vendor);

}  // namespace tunableop
