#include "backends/gpu/card_info.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>

#include "backends/gpu/runtime_api.h"
#include "backends/gpu/runtime_device.h"

namespace tunableop {
namespace {

template <typename Function>
Function Find(const VendorLibrary& library, const char* name) noexcept {
  return reinterpret_cast<Function>(library.Symbol(name));
}

int Attribute(const RuntimeApi& api, int attribute, int ordinal) noexcept {
  int value = 0;
  if (api.DeviceGetAttribute(&value, attribute, ordinal) == runtime_code::kSuccess) return value;
  api.GetLastError();
  return 0;
}

std::string PciBusId(const RuntimeApi& api, int ordinal) {
  std::array<char, 64> text = {};
  if (api.DeviceGetPCIBusId(text.data(), static_cast<int>(text.size()) - 1, ordinal) !=
      runtime_code::kSuccess) {
    api.GetLastError();
    return "";
  }
  std::string id = text.data();
  std::transform(id.begin(), id.end(), id.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return id;
}

// The runtime loads the driver's library itself, so it is in the process when there are cards.
// cudaGetDeviceProperties is no way to the name: its struct differs between the major versions.
void AskCudaDriver(int ordinal, DeviceInfo& info) {
  constexpr std::array kNames = {"libcuda.so.1"};
  const Result<VendorLibrary> driver = VendorLibrary::Load(Vendor::kNvidia, kNames);
  if (!driver.ok()) return;
  using namespace cuda_abi;  // NOLINT(google-build-using-namespace)
  const auto init = Find<cuInit_fn>(driver.value(), "cuInit");
  const auto get = Find<cuDeviceGet_fn>(driver.value(), "cuDeviceGet");
  const auto get_name = Find<cuDeviceGetName_fn>(driver.value(), "cuDeviceGetName");
  const auto get_memory = Find<cuDeviceTotalMem_v2_fn>(driver.value(), "cuDeviceTotalMem_v2");
  int device = 0;
  if (init == nullptr || get == nullptr || init(0) != 0 || get(&device, ordinal) != 0) return;
  std::array<char, 256> name = {};
  if (get_name != nullptr && get_name(name.data(), name.size() - 1, device) == 0) {
    info.name = name.data();
  }
  size_t bytes = 0;
  if (get_memory != nullptr && get_memory(&bytes, device) == 0) info.memory_bytes = bytes;
}

void AskCuda(const RuntimeApi& api, int ordinal, DeviceInfo& info) {
  const int major = Attribute(api, cuda_abi::cudaDevAttrComputeCapabilityMajor, ordinal);
  const int minor = Attribute(api, cuda_abi::cudaDevAttrComputeCapabilityMinor, ordinal);
  if (major > 0) info.arch = "sm_" + std::to_string(major) + std::to_string(minor);
  info.compute_units = Attribute(api, cuda_abi::cudaDevAttrMultiProcessorCount, ordinal);
  info.cache_bytes =
      static_cast<size_t>(std::max(0, Attribute(api, cuda_abi::cudaDevAttrL2CacheSize, ordinal)));
  AskCudaDriver(ordinal, info);
}

void AskHip(const RuntimeApi& api, const VendorLibrary& runtime, int ordinal, DeviceInfo& info) {
  using namespace hip_abi;  // NOLINT(google-build-using-namespace)
  info.compute_units = Attribute(api, hipDeviceAttributeMultiprocessorCount, ordinal);
  info.cache_bytes =
      static_cast<size_t>(std::max(0, Attribute(api, hipDeviceAttributeL2CacheSize, ordinal)));
  const size_t last = KfdCacheBytes("/sys/class/kfd/kfd/topology/nodes", info.pci_bus_id);
  info.cache_bytes = std::max(info.cache_bytes, last);

  const auto properties =
      Find<hipGetDevicePropertiesR0600_fn>(runtime, "hipGetDevicePropertiesR0600");
  if (properties != nullptr) {
    const auto read = std::make_unique<hipDeviceProp_tR0600>();  // zeroed
    if (properties(read.get(), ordinal) == hipSuccess) {
      const std::string_view arch(read->gcnArchName,
                                  strnlen(read->gcnArchName, sizeof(read->gcnArchName)));
      info.arch = arch.substr(0, arch.find(':'));  // "gfx942:sramecc+:xnack-"
    } else {
      api.GetLastError();
    }
  }
  const auto get = Find<hipDeviceGet_fn>(runtime, "hipDeviceGet");
  const auto get_name = Find<hipDeviceGetName_fn>(runtime, "hipDeviceGetName");
  const auto get_memory = Find<hipDeviceTotalMem_fn>(runtime, "hipDeviceTotalMem");
  int device = 0;
  if (get == nullptr || get(&device, ordinal) != hipSuccess) return;
  std::array<char, 256> name = {};
  if (get_name != nullptr && get_name(name.data(), name.size() - 1, device) == hipSuccess) {
    info.name = name.data();
  }
  size_t bytes = 0;
  if (get_memory != nullptr && get_memory(&bytes, device) == hipSuccess) info.memory_bytes = bytes;
}

// "level 3" in a file of such lines.
std::optional<unsigned long> Property(const std::filesystem::path& file, std::string_view name) {
  std::ifstream lines(file);
  std::string key;
  unsigned long value = 0;
  while (lines >> key >> value) {
    if (key == name) return value;
  }
  return std::nullopt;
}

}  // namespace

DeviceInfo ReadCard(const RuntimeApi& api, const VendorLibrary& runtime, int ordinal) {
  DeviceInfo info;
  info.pci_bus_id = PciBusId(api, ordinal);
  if (api.vendor == Vendor::kNvidia) {
    AskCuda(api, ordinal, info);
  } else {
    AskHip(api, runtime, ordinal, info);
  }
  if (info.memory_bytes == 0) {  // at the price of a context
    size_t free = 0;
    static_cast<void>(RuntimeDevice(api, ordinal, {}).MemoryInfo(free, info.memory_bytes).ok());
  }
  if (info.name.empty()) info.name = info.arch.empty() ? "unknown" : info.arch;
  if (api.DriverGetVersion(&info.driver_version) != runtime_code::kSuccess) api.GetLastError();
  if (api.RuntimeGetVersion(&info.runtime_version) != runtime_code::kSuccess) api.GetLastError();
  return info;
}

size_t KfdCacheBytes(const std::string& nodes, std::string_view pci_bus_id) {
  std::array<unsigned, 4> numbers = {};  // domain, bus, slot, function
  const std::string id(pci_bus_id);
  const char* next = id.c_str();
  const char* const end = next + id.size();
  for (unsigned& number : numbers) {
    const auto read = std::from_chars(next, end, number, 16);
    if (read.ec != std::errc()) return 0;
    next = read.ptr != end ? read.ptr + 1 : end;  // after ':' or '.'
  }
  const unsigned long location = numbers[1] << 8U | numbers[2] << 3U | numbers[3];
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::directory_iterator node(nodes, error); !error && node != fs::directory_iterator();
       node.increment(error)) {
    const fs::path properties = node->path() / "properties";
    if (Property(properties, "location_id") != location) continue;
    if (Property(properties, "domain").value_or(0) != numbers[0]) continue;
    // Each cache of the last level once: a card has several L2, but one last level.
    unsigned long last = 0;
    size_t kib = 0;
    std::error_code inner;
    for (fs::directory_iterator cache(node->path() / "caches", inner);
         !inner && cache != fs::directory_iterator(); cache.increment(inner)) {
      const auto level = Property(cache->path() / "properties", "level");
      const auto size = Property(cache->path() / "properties", "size");
      if (!level.has_value() || !size.has_value() || *level < last) continue;
      if (*level > last) kib = 0;
      last = *level;
      kib += *size;
    }
    return kib * 1024;
  }
  return 0;
}

int MajorOf(Vendor vendor, int version) noexcept {
  return vendor == Vendor::kNvidia ? version / 1000 : version / 10'000'000;
}

std::string VersionText(Vendor vendor, int version) {
  const int minor = vendor == Vendor::kNvidia ? version % 1000 / 10 : version / 100'000 % 100;
  return std::to_string(MajorOf(vendor, version)) + "." + std::to_string(minor);
}

}  // namespace tunableop
