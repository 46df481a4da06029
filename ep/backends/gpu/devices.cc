#include "backends/gpu/devices.h"

#include <utility>

#include "backends/blas/rocblas_backend.h"
#include "backends/gpu/card_info.h"
#include "backends/gpu/generation.h"
#include "backends/gpu/late_backend.h"
#include "backends/gpu/module_api.h"
#include "backends/gpu/runtime_device.h"
#include "backends/lt/lt_backend.h"

namespace tunableop {
namespace {

// What was found of one vendor. Immutable once made.
struct VendorFound {
  VendorTable table;
  std::string why;  // no runtime of it can be used
  std::optional<Generation> generation;
  std::vector<Gpu> gpus;
};

struct Found {
  std::vector<VendorFound> vendors;
  std::vector<Gpu> gpus;  // of all
};

VendorTable Nvidia() {
  return {.vendor = Vendor::kNvidia,
          .runtime = "libcudart",
          .driver = "libcuda.so.1",
          .device_file = "",
          .visible = "CUDA_VISIBLE_DEVICES",
          .majors = {13, 12, 11},
          .sonames = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"},
          .libraries = {
              {"libcublasLt",
               "cublaslt",
               {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"},
               MakeCublasLtBackend,
               false},
          }};
}

// The major versions are HIP's, not ROCm's: ROCm 10 has HIP 7.
VendorTable Amd() {
  return {.vendor = Vendor::kAmd,
          .runtime = "libamdhip64",
          .driver = nullptr,
          .device_file = "/dev/kfd",
          .visible = "HIP_VISIBLE_DEVICES",
          .majors = {7, 6},
          .sonames = {"libamdhip64.so.7", "libamdhip64.so.6"},
          .libraries = {
              {"libhipblaslt",
               "hipblaslt",
               {"libhipblaslt.so.1", "libhipblaslt.so.0"},
               MakeHipblasLtBackend,
               true},
              {"librocblas",
               "rocblas",
               {"librocblas.so.5", "librocblas.so.4"},
               MakeRocblasBackend,
               false},
          }};
}

// A card with what can run on it. generation.reasons gets what cannot.
Gpu MakeGpu(const VendorTable& table, Generation& generation, int ordinal) {
  Gpu gpu;
  gpu.device = std::make_shared<RuntimeDevice>(
      generation.api, ordinal, ReadCard(generation.api, generation.runtime, ordinal),
      ModuleApi::Bind(table.vendor, generation.runtime));
  for (size_t i = 0; i < table.libraries.size(); ++i) {
    const GemmLibrary& library = table.libraries[i];
    const std::optional<VendorLibrary>& file = generation.libraries[i];
    if (!file.has_value()) {
      AppendReason(gpu.reason, generation.reasons[i]);
    } else if (library.late) {
      gpu.backends.push_back(
          std::make_shared<LateBackend>(library.backend, library.make, gpu.device, *file));
    } else if (auto made = library.make(gpu.device, *file); made.ok()) {
      gpu.backends.push_back(std::move(made).value());
    } else {
      const std::string why =
          std::string(library.backend) + ": " + std::string(made.status().message());
      if (generation.reasons[i].empty()) generation.reasons[i] = why;
      AppendReason(gpu.reason, why);
    }
  }
  if (!gpu.backends.empty()) gpu.reason.clear();
  return gpu;
}

VendorFound LookFor(VendorTable table) {
  VendorFound found;
  found.table = std::move(table);
  found.generation = ChooseGeneration(found.table, found.why);
  if (!found.generation.has_value()) return found;
  for (int ordinal = 0; ordinal < found.generation->cards; ++ordinal) {
    found.gpus.push_back(MakeGpu(found.table, *found.generation, ordinal));
  }
  return found;
}

LibraryState RuntimeState(const VendorFound& found) {
  LibraryState line;
  line.library = found.table.runtime;
  line.available = found.generation.has_value();
  if (line.available) {
    line.identity = VersionText(found.table.vendor, found.generation->version);
    line.path = found.generation->runtime.path();
  } else {
    line.reason = found.why;
  }
  return line;
}

LibraryState GemmState(const VendorFound& found, size_t index) {
  const GemmLibrary& library = found.table.libraries[index];
  LibraryState line;
  line.library = library.name;
  if (!found.generation.has_value()) {
    // It would be hundreds of megabytes for nothing.
    line.reason = std::string("not looked for, since ") + found.table.runtime + " is of no use";
    return line;
  }
  const std::optional<VendorLibrary>& file = found.generation->libraries[index];
  if (file.has_value()) line.path = file->path();
  line.reason = found.generation->reasons[index];
  for (const Gpu& gpu : found.gpus) {
    for (const std::shared_ptr<const Backend>& backend : gpu.backends) {
      if (line.available || backend->library() != library.backend) continue;
      line.reason = WhyNot(*backend);
      line.available = line.reason.empty();
      if (line.available) line.identity = backend->identity();
    }
  }
  return line;
}

// Never destroyed: kernels of a vendor's library may run while a process ends.
const Found& TheFound() {
  static const auto& found = *[] {
    auto* all = new Found;
    all->vendors.push_back(LookFor(Nvidia()));
    all->vendors.push_back(LookFor(Amd()));
    for (const VendorFound& vendor : all->vendors) {
      all->gpus.insert(all->gpus.end(), vendor.gpus.begin(), vendor.gpus.end());
    }
    return all;
  }();
  return found;
}

}  // namespace

std::span<const Gpu> Gpus() { return TheFound().gpus; }

std::string WhyNot(const Backend& backend) {
  const auto* late = dynamic_cast<const LateBackend*>(&backend);
  return late != nullptr ? late->WhyNot() : "";
}

std::string WhyUnusable(const Gpu& gpu) {
  std::string why = gpu.reason;
  for (const std::shared_ptr<const Backend>& backend : gpu.backends) {
    const std::string why_not = WhyNot(*backend);
    if (why_not.empty()) return "";
    AppendReason(why, why_not);
  }
  return why;
}

std::vector<LibraryState> GpuLibraries() {
  std::vector<LibraryState> lines;
  for (const VendorFound& found : TheFound().vendors) {
    lines.push_back(RuntimeState(found));
    for (size_t i = 0; i < found.table.libraries.size(); ++i) lines.push_back(GemmState(found, i));
  }
  return lines;
}

}  // namespace tunableop
