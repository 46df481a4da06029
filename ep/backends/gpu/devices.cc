#include "backends/gpu/devices.h"

#include <utility>

#include "backends/blas/rocblas_backend.h"
#include "backends/gpu/card_info.h"
#include "backends/gpu/generation.h"
#include "backends/gpu/runtime_device.h"
#include "backends/lt/lt_backend.h"

namespace tunableop {
namespace {

struct Found {
  std::vector<Gpu> gpus;
  std::vector<LibraryState> libraries;
};

VendorTable Nvidia() {
  return {.vendor = Vendor::kNvidia,
          .runtime = "libcudart",
          .visible = "CUDA_VISIBLE_DEVICES",
          .majors = {13, 12, 11},
          .sonames = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"},
          .libraries = {
              {"libcublasLt",
               "cublaslt",
               {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"},
               MakeCublasLtBackend},
          }};
}

// The major versions are HIP's, not ROCm's: ROCm 10 has HIP 7.
VendorTable Amd() {
  return {.vendor = Vendor::kAmd,
          .runtime = "libamdhip64",
          .visible = "HIP_VISIBLE_DEVICES",
          .majors = {7, 6},
          .sonames = {"libamdhip64.so.7", "libamdhip64.so.6"},
          .libraries = {
              {"libhipblaslt",
               "hipblaslt",
               {"libhipblaslt.so.1", "libhipblaslt.so.0"},
               MakeHipblasLtBackend},
              {"librocblas", "rocblas", {"librocblas.so.5", "librocblas.so.4"}, MakeRocblasBackend},
          }};
}

// A card with what can run on it. generation.reasons gets what could not.
Gpu MakeGpu(const VendorTable& table, Generation& generation, int ordinal) {
  Gpu gpu;
  gpu.device = std::make_shared<RuntimeDevice>(
      generation.api, ordinal, ReadCard(generation.api, generation.runtime, ordinal));
  for (size_t i = 0; i < table.libraries.size(); ++i) {
    const GemmLibrary& library = table.libraries[i];
    std::string reason = generation.reasons[i];
    if (generation.libraries[i].has_value()) {
      auto backend = library.make(gpu.device, *generation.libraries[i]);
      if (backend.ok()) {
        gpu.backends.push_back(std::move(backend).value());
        continue;
      }
      reason = std::string(library.name) + ": " + std::string(backend.status().message());
      if (generation.reasons[i].empty()) generation.reasons[i] = reason;
    }
    AppendReason(gpu.reason, reason);
  }
  if (!gpu.backends.empty()) gpu.reason.clear();
  return gpu;
}

LibraryState StateOf(const GemmLibrary& library, const std::vector<Gpu>& gpus,
                     const VendorLibrary* loaded, const std::string& reason) {
  LibraryState line;
  line.library = library.name;
  if (loaded != nullptr) line.path = loaded->path();
  for (const Gpu& gpu : gpus) {
    for (const std::shared_ptr<const Backend>& backend : gpu.backends) {
      if (backend->library() != library.backend) continue;
      line.available = true;
      line.identity = backend->identity();
      return line;
    }
  }
  line.reason = reason;
  return line;
}

void LookFor(const VendorTable& table, Found& found) {
  LibraryState runtime;
  runtime.library = table.runtime;
  std::optional<Generation> generation = ChooseGeneration(table, runtime.reason);
  std::vector<Gpu> gpus;
  if (generation.has_value()) {
    runtime.available = true;
    runtime.identity = VersionText(table.vendor, generation->version);
    runtime.path = generation->runtime.path();
    runtime.reason.clear();
    for (int ordinal = 0; ordinal < generation->cards; ++ordinal) {
      gpus.push_back(MakeGpu(table, *generation, ordinal));
    }
  }
  found.libraries.push_back(std::move(runtime));
  for (size_t i = 0; i < table.libraries.size(); ++i) {
    if (generation.has_value()) {
      const std::optional<VendorLibrary>& loaded = generation->libraries[i];
      found.libraries.push_back(StateOf(table.libraries[i], gpus,
                                        loaded.has_value() ? &*loaded : nullptr,
                                        generation->reasons[i]));
    } else {  // it would be hundreds of megabytes for nothing
      found.libraries.push_back(
          StateOf(table.libraries[i], gpus, nullptr,
                  std::string("not looked for, since ") + table.runtime + " is of no use"));
    }
  }
  for (Gpu& gpu : gpus) found.gpus.push_back(std::move(gpu));
}

// Never destroyed: kernels of a vendor's library may run while a process ends.
const Found& TheFound() {
  static const auto& found = *[] {
    auto* all = new Found;
    LookFor(Nvidia(), *all);
    LookFor(Amd(), *all);
    return all;
  }();
  return found;
}

}  // namespace

std::span<const Gpu> Gpus() { return TheFound().gpus; }

std::vector<LibraryState> GpuLibraries() { return TheFound().libraries; }

}  // namespace tunableop
