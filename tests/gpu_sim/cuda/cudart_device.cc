// libcudart: cards, errors and memory.
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

// The struct of CUDA 12 and that of 13: what is filled in, at which offset.
struct PropertyLayout {
  size_t size;
  size_t units;
  size_t bus;
  size_t l2;
};
constexpr PropertyLayout kProperties12{1032, 388, 584, 616};
constexpr PropertyLayout kProperties13{1008, 384, 568, 596};

int BusOf(const simgpu::Card& card) { return std::stoi(card.pci_bus_id.substr(5, 2), nullptr, 16); }

void FillProperties(void* out, const PropertyLayout& layout, int device) {
  const simgpu::Card& card = *simgpu::Cards()[static_cast<size_t>(device)];
  auto* const bytes = static_cast<char*>(out);
  std::memset(bytes, 0, layout.size);
  std::snprintf(bytes, 256, "%s", card.name.c_str());
  const int bus = BusOf(card);
  const int l2 = static_cast<int>(card.cache.bytes());
  std::memcpy(bytes + layout.units, &card.compute_units, sizeof(int));
  std::memcpy(bytes + layout.bus, &bus, sizeof bus);
  std::memcpy(bytes + layout.l2, &l2, sizeof l2);
}

}  // namespace

extern "C" {

SIM_API int cudaDriverGetVersion(int* version) {
  *version = simgpu::ThisFlavour().driver_version;
  if (simgpu::FaultOn("no_driver")) *version = 0;
  if (simgpu::FaultOn("old_driver")) *version = 11040;
  return 0;
}

SIM_API int cudaRuntimeGetVersion(int* version) {
  *version = simgpu::ThisFlavour().runtime_version;
  return 0;
}

SIM_API int cudaGetDeviceCount(int* count) {
  *count = 0;
  const Err error = simgpu::Usable();
  if (error == Err::kOk) *count = static_cast<int>(simgpu::Cards().size());
  return Returned(error);
}

SIM_API int cudaSetDevice(int device) { return Returned(simgpu::SetCurrent(device)); }

SIM_API int cudaGetDevice(int* device) {
  const Err error = simgpu::Usable();
  if (error == Err::kOk) *device = simgpu::Current();
  return Returned(error);
}

SIM_API int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  if (const Err error = simgpu::CheckOrdinal(device); error != Err::kOk) return Returned(error);
  const simgpu::Card& card = *simgpu::Cards()[static_cast<size_t>(device)];
  switch (attribute) {
    case 1:  // cudaDevAttrMaxThreadsPerBlock
      *value = 1024;
      return 0;
    case 10:  // cudaDevAttrWarpSize
      *value = 32;
      return 0;
    case 13:  // cudaDevAttrClockRate, kHz
      *value = 1980000;
      return 0;
    case 16:  // cudaDevAttrMultiProcessorCount
      *value = card.compute_units;
      return 0;
    case 18:  // cudaDevAttrIntegrated
      *value = 0;
      return 0;
    case 33:  // cudaDevAttrPciBusId
      *value = BusOf(card);
      return 0;
    case 34:  // cudaDevAttrPciDeviceId
    case 50:  // cudaDevAttrPciDomainId
      *value = 0;
      return 0;
    case 36:  // cudaDevAttrMemoryClockRate, kHz
      *value = 3201000;
      return 0;
    case 37:  // cudaDevAttrGlobalMemoryBusWidth
      *value = 6144;
      return 0;
    case 38:  // cudaDevAttrL2CacheSize
      *value = static_cast<int>(card.cache.bytes());
      return 0;
    case 75:                                         // cudaDevAttrComputeCapabilityMajor
      *value = std::stoi(card.arch.substr(3)) / 10;  // "sm_90"
      return 0;
    case 76:  // cudaDevAttrComputeCapabilityMinor
      *value = std::stoi(card.arch.substr(3)) % 10;
      return 0;
    case 31:   // cudaDevAttrConcurrentKernels
    case 41:   // cudaDevAttrUnifiedAddressing
    case 115:  // cudaDevAttrMemoryPoolsSupported
      *value = 1;
      return 0;
    default:
      return Returned(Err::kInvalidValue);
  }
}

SIM_API int cudaDeviceGetPCIBusId(char* id, int length, int device) {
  if (const Err error = simgpu::CheckOrdinal(device); error != Err::kOk) return Returned(error);
  if (id == nullptr || length < 13) return Returned(Err::kInvalidValue);
  std::snprintf(id, static_cast<size_t>(length), "%s",
                simgpu::Cards()[static_cast<size_t>(device)]->pci_bus_id.c_str());
  return 0;
}

SIM_API int cudaDeviceGetByPCIBusId(int* device, const char* id) {
  if (const Err error = simgpu::Usable(); error != Err::kOk) return Returned(error);
  for (const auto& card : simgpu::Cards()) {
    if (strcasecmp(card->pci_bus_id.c_str(), id) != 0) continue;
    *device = card->ordinal;
    return 0;
  }
  return Returned(Err::kInvalidValue);
}

// In CUDA 12 the plain name is the struct of CUDA 11, which is not simulated: it records a misuse.
SIM_API int cudaGetDeviceProperties(void* properties, int device) {
  if (const Err error = simgpu::CheckOrdinal(device); error != Err::kOk) return Returned(error);
  if (simgpu::ThisFlavour().runtime_version < 13000) {
    simgpu::Misuse("cudaGetDeviceProperties");
    return Returned(Err::kInvalidValue);
  }
  FillProperties(properties, kProperties13, device);
  return 0;
}

SIM_API int cudaGetDeviceProperties_v2(void* properties, int device) {
  if (const Err error = simgpu::CheckOrdinal(device); error != Err::kOk) return Returned(error);
  FillProperties(properties, kProperties12, device);
  return 0;
}

SIM_API int cudaGetLastError() { return simgpu::VendorError(simgpu::LastError(true)); }
SIM_API int cudaPeekAtLastError() { return simgpu::VendorError(simgpu::LastError(false)); }

SIM_API const char* cudaGetErrorName(int error) {
  switch (error) {
    case 0:
      return "cudaSuccess";
    case 1:
      return "cudaErrorInvalidValue";
    case 2:
      return "cudaErrorMemoryAllocation";
    case 35:
      return "cudaErrorInsufficientDriver";
    case 100:
      return "cudaErrorNoDevice";
    case 101:
      return "cudaErrorInvalidDevice";
    case 200:
      return "cudaErrorInvalidKernelImage";
    case 201:
      return "cudaErrorDeviceUninitialized";
    case 209:
      return "cudaErrorNoKernelImageForDevice";
    case 400:
      return "cudaErrorInvalidResourceHandle";
    case 500:
      return "cudaErrorSymbolNotFound";
    case 600:
      return "cudaErrorNotReady";
    case 700:
      return "cudaErrorIllegalAddress";
    case 701:
      return "cudaErrorLaunchOutOfResources";
    case 719:
      return "cudaErrorLaunchFailure";
    case 801:
      return "cudaErrorNotSupported";
    case 900:
      return "cudaErrorStreamCaptureUnsupported";
    case 901:
      return "cudaErrorStreamCaptureInvalidated";
    default:
      return "unrecognized error code";
  }
}

SIM_API const char* cudaGetErrorString(int error) {
  switch (error) {
    case 0:
      return "no error";
    case 1:
      return "invalid argument";
    case 2:
      return "out of memory";
    case 35:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case 100:
      return "no CUDA-capable device is detected";
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
      return "unrecognized error code";
  }
}

SIM_API int cudaMalloc(void** memory, size_t bytes) {
  return Returned(simgpu::Allocate(memory, bytes));
}
SIM_API int cudaFree(void* memory) { return Returned(simgpu::Free(memory)); }
SIM_API int cudaMallocAsync(void** memory, size_t bytes, void* stream) {
  return Returned(simgpu::AllocateOn(memory, bytes, stream));
}
SIM_API int cudaFreeAsync(void* memory, void* stream) {
  return Returned(simgpu::FreeOn(memory, stream));
}
SIM_API int cudaMallocHost(void** memory, size_t bytes) {
  return Returned(simgpu::AllocateHost(memory, bytes));
}
SIM_API int cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return Returned(simgpu::AllocateHost(memory, bytes));
}
SIM_API int cudaFreeHost(void* memory) { return Returned(simgpu::FreeHost(memory)); }
SIM_API int cudaMemGetInfo(size_t* free, size_t* total) {
  return Returned(simgpu::MemoryInfo(free, total));
}

// cudaPointerAttributes: type (0 not known, 1 host, 2 device), device, two addresses.
SIM_API int cudaPointerGetAttributes(void* attributes, const void* address) {
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
  } result{device   ? 2
           : pinned ? 1
                    : 0,
           device || pinned ? ordinal : -2, device || pinned ? address : nullptr,
           device ? nullptr : address};
  std::memcpy(attributes, &result, sizeof result);
  return 0;
}

SIM_API int cudaDeviceGetDefaultMemPool(void** pool, int device) {
  if (const Err error = simgpu::CheckOrdinal(device); error != Err::kOk) return Returned(error);
  *pool = simgpu::Cards()[static_cast<size_t>(device)].get();
  return 0;
}
SIM_API int cudaMemPoolSetAttribute(void*, int attribute, void* value) {
  const bool good = attribute >= 1 && attribute <= 8 && value != nullptr;
  return Returned(good ? Err::kOk : Err::kInvalidValue);
}
SIM_API int cudaMemPoolTrimTo(void*, size_t) { return 0; }

}  // extern "C"
