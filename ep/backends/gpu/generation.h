// Which of the releases of a vendor's libraries that this machine has is used.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/gpu/runtime_api.h"
#include "backends/gpu/vendor_library.h"
#include "gemm/backend.h"
#include "gemm/device.h"
#include "gemm/status.h"

namespace tunableop {

// One GEMM library of a vendor, under its name in each generation.
struct GemmLibrary {
  using Make = Result<std::shared_ptr<const Backend>> (*)(std::shared_ptr<const Device>,
                                                          const VendorLibrary&);
  const char* name;     // "libhipblaslt"
  const char* backend;  // Backend::library of it
  std::vector<const char*> sonames;
  Make make;
  bool late;  // `make` uses the card: see LateBackend
};

// A vendor's libraries. Those of one generation belong together: a GEMM library of another one than
// the runtime's is not tried.
struct VendorTable {
  Vendor vendor;
  const char* runtime;      // "libamdhip64"
  const char* driver;       // its library, which the runtime loads; null: the runtime is all
  const char* device_file;  // where `driver` is null: is there when the driver is
  const char* visible;      // the variable that says which cards a process may use
  std::vector<int> majors;  // of the runtime, the newest first: the generations
  std::vector<const char*> sonames;    // of the runtime, one for each generation
  std::vector<GemmLibrary> libraries;  // the one that gives the default kernel first
};

// A runtime that finds cards, and the GEMM libraries that go with it.
struct Generation {
  size_t index = 0;  // in VendorTable::majors
  VendorLibrary runtime;
  RuntimeApi api;
  int version = 0;  // the runtime's
  int cards = 0;    // > 0
  // As VendorTable::libraries: what was loaded, or why not.
  std::vector<std::optional<VendorLibrary>> libraries;
  std::vector<std::string> reasons;
};

// What the process has loaded already, else the newest; one that has a GEMM library before one that
// has none, and none that the driver is too old for. Nothing: `why` says what is there and what is
// wrong with it.
std::optional<Generation> ChooseGeneration(const VendorTable& table, std::string& why);

// Appends a reason to others, with "; " between them.
void AppendReason(std::string& reasons, std::string_view more);

}  // namespace tunableop
