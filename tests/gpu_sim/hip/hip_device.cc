// libamdhip64: cards, errors and memory.
#include <strings.h>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "core/card.h"
#include "core/copy.h"
#include "core/error.h"
#include "core/faults.h"
#include "core/flavour.h"
#include "core/stream.h"
#include "core/vendor_error.h"

using simgpu::Err;
using simgpu::Returned;

namespace {

// hipDeviceProp_tR0600
constexpr size_t kPropertiesSize = 1472;
constexpr size_t kTotalMemory = 288;
constexpr size_t kWarpSize = 308;
constexpr size_t kMajor = 360;
constexpr size_t kMinor = 364;
constexpr size_t kUnits = 388;
constexpr size_t kBus = 584;
constexpr size_t kL2 = 616;
constexpr size_t kArch = 1160;

const simgpu::Card& CardAt(int device) { return *simgpu::Cards()[static_cast<size_t>(device)]; }

int BusOf(const simgpu::Card& card) { return std::stoi(card.pci_bus_id.substr(5, 2), nullptr, 16); }

void Put(void* out, size_t offset, int value) {
  std::memcpy(static_cast<char*>(out) + offset, &value, sizeof value);
}

}  // namespace

extern "C" {

SIM_API int hipInit(unsigned) { return Returned(simgpu::Usable()); }

SIM_API int hipDriverGetVersion(int* version) {
  *version = simgpu::ThisFlavour().driver_version;
  if (simgpu::FaultOn("no_driver")) *version = 0;
  if (simgpu::FaultOn("old_driver")) *version = 50700000;
  return 0;
}
SIM_API int hipRuntimeGetVersion(int* version) {
  *version = simgpu::ThisFlavour().runtime_version;
  return 0;
}

SIM_API int hipGetDeviceCount(int* count) {
  *count = 0;
  const Err error = simgpu::Usable();
  if (error == Err::kOk) *count = static_cast<int>(simgpu::Cards().size());
  return Returned(error);
}
SIM_API int hipSetDevice(int device) { return Returned(simgpu::SetCurrent(device)); }
SIM_API int hipGetDevice(int* device) {
  const Err error = simgpu::Usable();
  if (error == Err::kOk) *device = simgpu::Current();
  return Returned(error);
}
SIM_API int hipDeviceGet(int* device, int ordinal) {
  const Err error = simgpu::CheckOrdinal(ordinal);
  if (error == Err::kOk) *device = ordinal;
  return Returned(error);
}

SIM_API int hipDeviceGetName(char* name, int length, int device) {
  if (const Err error = simgpu::CheckOrdinal(device); error != Err::kOk) return Returned(error);
  if (name == nullptr || length <= 0) return Returned(Err::kInvalidValue);
  std::snprintf(name, static_cast<size_t>(length), "%s", CardAt(device).name.c_str());
  return 0;
}
SIM_API int hipDeviceGetPCIBusId(char* id, int length, int device) {
  if (const Err error = simgpu::CheckOrdinal(device); error != Err::kOk) return Returned(error);
  if (id == nullptr || length < 13) return Returned(Err::kInvalidValue);
  std::snprintf(id, static_cast<size_t>(length), "%s", CardAt(device).pci_bus_id.c_str());
  return 0;
}
SIM_API int hipDeviceGetByPCIBusId(int* device, const char* id) {
  if (const Err error = simgpu::Usable(); error != Err::kOk) return Returned(error);
  for (const auto& card : simgpu::Cards()) {
    if (strcasecmp(card->pci_bus_id.c_str(), id) != 0) continue;
    *device = card->ordinal;
    return 0;
  }
  return Returned(Err::kInvalidValue);
}
SIM_API int hipDeviceGetUuid(void* uuid, int device) {
  if (const Err error = simgpu::CheckOrdinal(device); error != Err::kOk) return Returned(error);
  char text[17];
  std::snprintf(text, sizeof text, "51a0000000000%03d", device);
  std::memcpy(uuid, text, 16);
  return 0;
}
SIM_API int hipDeviceTotalMem(size_t* bytes, int device) {
  if (const Err error = simgpu::CheckOrdinal(device); error != Err::kOk) return Returned(error);
  *bytes = CardAt(device).memory.capacity();
  return 0;
}

SIM_API int hipDeviceGetAttribute(int* value, int attribute, int device) {
  if (const Err error = simgpu::CheckOrdinal(device); error != Err::kOk) return Returned(error);
  const simgpu::Card& card = CardAt(device);
  switch (attribute) {
    case 5:  // ClockRate, kHz
      *value = 2100000;
      return 0;
    case 16:  // Integrated
      *value = 0;
      return 0;
    case 19:  // L2CacheSize
      *value = static_cast<int>(card.cache.bytes());
      return 0;
    case 23:  // ComputeCapabilityMajor
      *value = 9;
      return 0;
    case 61:  // ComputeCapabilityMinor
      *value = 4;
      return 0;
    case 56:  // MaxThreadsPerBlock
      *value = 1024;
      return 0;
    case 59:  // MemoryBusWidth
      *value = 8192;
      return 0;
    case 60:  // MemoryClockRate, kHz
      *value = 1300000;
      return 0;
    case 63:  // MultiprocessorCount
      *value = card.compute_units;
      return 0;
    case 67:  // PciBusId
      *value = BusOf(card);
      return 0;
    case 68:  // PciDeviceId
    case 69:  // PciDomainID
      *value = 0;
      return 0;
    case 85:  // UnifiedAddressing
    case 88:  // MemoryPoolsSupported
      *value = 1;
      return 0;
    case 87:  // WarpSize
      *value = 64;
      return 0;
    case 10018:  // NumberOfXccs, since ROCm 7
      if (simgpu::ThisFlavour().rocm < 7) return Returned(Err::kInvalidValue);
      *value = 8;
      return 0;
    default:
      return Returned(Err::kInvalidValue);
  }
}

SIM_API int hipGetDevicePropertiesR0600(void* properties, int device) {
  if (const Err error = simgpu::CheckOrdinal(device); error != Err::kOk) return Returned(error);
  const simgpu::Card& card = CardAt(device);
  auto* const bytes = static_cast<char*>(properties);
  std::memset(bytes, 0, kPropertiesSize);
  std::snprintf(bytes, 256, "%s", card.name.c_str());
  std::snprintf(bytes + kArch, 256, "%s", card.arch.c_str());
  const size_t memory = card.memory.capacity();
  std::memcpy(bytes + kTotalMemory, &memory, sizeof memory);
  Put(bytes, kWarpSize, 64);
  Put(bytes, kMajor, 9);
  Put(bytes, kMinor, 4);
  Put(bytes, kUnits, card.compute_units);
  Put(bytes, kBus, BusOf(card));
  Put(bytes, kL2, static_cast<int>(card.cache.bytes()));
  return 0;
}
// The plain name is the struct of before ROCm 6, with other offsets.
SIM_API int hipGetDeviceProperties(void*, int) {
  simgpu::Misuse("hipGetDeviceProperties");
  return Returned(Err::kInvalidValue);
}

SIM_API int hipGetLastError() { return simgpu::VendorError(simgpu::LastError(true)); }
SIM_API int hipPeekAtLastError() { return simgpu::VendorError(simgpu::LastError(false)); }

SIM_API const char* hipGetErrorName(int error) {
  switch (error) {
    case 0:
      return "hipSuccess";
    case 1:
      return "hipErrorInvalidValue";
    case 2:
      return "hipErrorOutOfMemory";
    case 35:
      return "hipErrorInsufficientDriver";
    case 100:
      return "hipErrorNoDevice";
    case 101:
      return "hipErrorInvalidDevice";
    case 200:
      return "hipErrorInvalidImage";
    case 201:
      return "hipErrorInvalidContext";
    case 209:
      return "hipErrorNoBinaryForGpu";
    case 400:
      return "hipErrorInvalidHandle";
    case 500:
      return "hipErrorNotFound";
    case 600:
      return "hipErrorNotReady";
    case 700:
      return "hipErrorIllegalAddress";
    case 701:
      return "hipErrorLaunchOutOfResources";
    case 719:
      return "hipErrorLaunchFailure";
    case 801:
      return "hipErrorNotSupported";
    case 900:
      return "hipErrorStreamCaptureUnsupported";
    case 901:
      return "hipErrorStreamCaptureInvalidated";
    default:
      return "hipErrorUnknown";
  }
}
SIM_API const char* hipGetErrorString(int error) {
  switch (error) {
    case 0:
      return "no error";
    case 1:
      return "invalid argument";
    case 2:
      return "out of memory";
    case 35:
      return "driver version is insufficient for runtime version";
    case 100:
      return "no ROCm-capable device is detected";
    case 101:
      return "invalid device ordinal";
    case 200:
      return "device kernel image is invalid";
    case 201:
      return "invalid device context";
    case 209:
      return "no kernel image is available for execution on the device";
    case 400:
      return "invalid resource handle";
    case 500:
      return "named symbol not found";
    case 600:
      return "device not ready";
    case 700:
      return "an illegal memory access was encountered";
    case 701:
      return "too many resources requested for launch";
    case 719:
      return "unspecified launch failure";
    case 801:
      return "operation not supported";
    case 900:
      return "operation not permitted when stream is capturing";
    case 901:
      return "operation failed due to a previous error during capture";
    default:
      return "unknown error";
  }
}

SIM_API int hipMalloc(void** memory, size_t bytes) {
  return Returned(simgpu::Allocate(memory, bytes));
}
SIM_API int hipFree(void* memory) { return Returned(simgpu::Free(memory)); }
SIM_API int hipMallocAsync(void** memory, size_t bytes, void* stream) {
  return Returned(simgpu::AllocateOn(memory, bytes, stream));
}
SIM_API int hipMallocFromPoolAsync(void** memory, size_t bytes, void*, void* stream) {
  return Returned(simgpu::AllocateOn(memory, bytes, stream));
}
SIM_API int hipFreeAsync(void* memory, void* stream) {
  return Returned(simgpu::FreeOn(memory, stream));
}
SIM_API int hipHostMalloc(void** memory, size_t bytes, unsigned) {
  return Returned(simgpu::AllocateHost(memory, bytes));
}
SIM_API int hipHostFree(void* memory) { return Returned(simgpu::FreeHost(memory)); }
SIM_API int hipMemGetInfo(size_t* free, size_t* total) {
  return Returned(simgpu::MemoryInfo(free, total));
}

// hipPointerAttribute_t: type (0 not known, 1 host, 2 device), device, two addresses, managed,
// flags.
SIM_API int hipPointerGetAttributes(void* attributes, const void* address) {
  if (const Err error = simgpu::Healthy(); error != Err::kOk) return Returned(error);
  int ordinal = 0;
  const simgpu::Where where = simgpu::WhereIs(address, &ordinal);
  const bool device = where == simgpu::Where::kDevice;
  const bool pinned = where == simgpu::Where::kPinned;
  struct {
    int type;
    int device;
    const void* device_address;
    const void* host_address;
    int managed;
    unsigned flags;
  } result{device ? 2 : pinned ? 1 : 0, ordinal, device || pinned ? address : nullptr,
           device ? nullptr : address,  0,       0};
  static_assert(sizeof result == 32);
  std::memcpy(attributes, &result, sizeof result);
  return 0;
}

SIM_API int hipDeviceGetDefaultMemPool(void** pool, int device) {
  if (const Err error = simgpu::CheckOrdinal(device); error != Err::kOk) return Returned(error);
  *pool = simgpu::Cards()[static_cast<size_t>(device)].get();
  return 0;
}
SIM_API int hipDeviceGetMemPool(void** pool, int device) {
  return hipDeviceGetDefaultMemPool(pool, device);
}
SIM_API int hipMemPoolSetAttribute(void*, int attribute, void* value) {
  const bool good = attribute >= 1 && attribute <= 8 && value != nullptr;
  return Returned(good ? Err::kOk : Err::kInvalidValue);
}
SIM_API int hipMemPoolTrimTo(void*, size_t) { return 0; }

}  // extern "C"
