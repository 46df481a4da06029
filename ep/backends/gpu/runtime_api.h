// The functions of a vendor's runtime that a Device needs. CUDA's and HIP's have the same shape, so
// there is one table, and two lists of names for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "abi/cuda_api.h"
#include "abi/hip_api.h"
#include "backends/gpu/vendor_library.h"
#include "gemm/status.h"

namespace tunableop {

// What it is called here, in CUDA, in HIP.
#define TUNABLEOP_RUNTIME_FUNCTIONS(X)                                          \
  X(DriverGetVersion, cudaDriverGetVersion, hipDriverGetVersion)                \
  X(RuntimeGetVersion, cudaRuntimeGetVersion, hipRuntimeGetVersion)             \
  X(GetDeviceCount, cudaGetDeviceCount, hipGetDeviceCount)                      \
  X(GetDevice, cudaGetDevice, hipGetDevice)                                     \
  X(SetDevice, cudaSetDevice, hipSetDevice)                                     \
  X(DeviceGetAttribute, cudaDeviceGetAttribute, hipDeviceGetAttribute)          \
  X(DeviceGetPCIBusId, cudaDeviceGetPCIBusId, hipDeviceGetPCIBusId)             \
  X(GetLastError, cudaGetLastError, hipGetLastError)                            \
  X(GetErrorName, cudaGetErrorName, hipGetErrorName)                            \
  X(GetErrorString, cudaGetErrorString, hipGetErrorString)                      \
  X(Malloc, cudaMalloc, hipMalloc)                                              \
  X(Free, cudaFree, hipFree)                                                    \
  X(HostMalloc, cudaHostAlloc, hipHostMalloc)                                   \
  X(HostFree, cudaFreeHost, hipHostFree)                                        \
  X(MemGetInfo, cudaMemGetInfo, hipMemGetInfo)                                  \
  X(MemcpyAsync, cudaMemcpyAsync, hipMemcpyAsync)                               \
  X(Memcpy2DAsync, cudaMemcpy2DAsync, hipMemcpy2DAsync)                         \
  X(MemsetAsync, cudaMemsetAsync, hipMemsetAsync)                               \
  X(StreamCreateWithFlags, cudaStreamCreateWithFlags, hipStreamCreateWithFlags) \
  X(StreamDestroy, cudaStreamDestroy, hipStreamDestroy)                         \
  X(StreamSynchronize, cudaStreamSynchronize, hipStreamSynchronize)             \
  X(StreamWaitEvent, cudaStreamWaitEvent, hipStreamWaitEvent)                   \
  X(StreamIsCapturing, cudaStreamIsCapturing, hipStreamIsCapturing)             \
  X(EventCreateWithFlags, cudaEventCreateWithFlags, hipEventCreateWithFlags)    \
  X(EventDestroy, cudaEventDestroy, hipEventDestroy)                            \
  X(EventRecord, cudaEventRecord, hipEventRecord)                               \
  X(EventQuery, cudaEventQuery, hipEventQuery)                                  \
  X(EventSynchronize, cudaEventSynchronize, hipEventSynchronize)                \
  X(EventElapsedTime, cudaEventElapsedTime, hipEventElapsedTime)

// Used where they are.
#define TUNABLEOP_OPTIONAL_RUNTIME_FUNCTIONS(X)                           \
  X(ThreadExchangeStreamCaptureMode, cudaThreadExchangeStreamCaptureMode, \
    hipThreadExchangeStreamCaptureMode)                                   \
  X(StreamBeginCapture, cudaStreamBeginCapture, hipStreamBeginCapture)    \
  X(StreamEndCapture, cudaStreamEndCapture, hipStreamEndCapture)          \
  X(GraphLaunch, cudaGraphLaunch, hipGraphLaunch)                         \
  X(GraphDestroy, cudaGraphDestroy, hipGraphDestroy)                      \
  X(GraphExecDestroy, cudaGraphExecDestroy, hipGraphExecDestroy)

struct RuntimeApi {
#define TUNABLEOP_MEMBER(member, cuda, hip) cuda_abi::cuda##_fn member = nullptr;
  TUNABLEOP_RUNTIME_FUNCTIONS(TUNABLEOP_MEMBER)
  TUNABLEOP_OPTIONAL_RUNTIME_FUNCTIONS(TUNABLEOP_MEMBER)
#undef TUNABLEOP_MEMBER

  // The one function of graphs that has another shape in each: one of them is there, or none.
  cuda_abi::cudaGraphInstantiateWithFlags_fn CudaGraphInstantiate = nullptr;
  hip_abi::hipGraphInstantiate_fn HipGraphInstantiate = nullptr;

  Vendor vendor = Vendor::kNvidia;
  const char* prefix = "";  // "cuda": what the vendor puts before the names above
  uint32_t vendor_id = 0;   // PCI

  // Codes after which a card does not work again in this process.
  std::span<const int> fatal;

  // kNotFound: which function `library` lacks.
  static Result<RuntimeApi> Bind(Vendor vendor, const VendorLibrary& library);

  bool IsFatal(int code) const noexcept;
  // All functions of graphs are there.
  bool HasGraphs() const noexcept;
  int Instantiate(void** executable, void* graph) const noexcept;
  // "cudaErrorNoDevice: no CUDA-capable device is detected".
  std::string Words(int code) const;
};

// The codes and flags that both have in common; runtime_api.cc asserts that they are equal.
namespace runtime_code {
inline constexpr int kSuccess = cuda_abi::cudaSuccess;
inline constexpr int kOutOfMemory = cuda_abi::cudaErrorMemoryAllocation;
inline constexpr int kInsufficientDriver = cuda_abi::cudaErrorInsufficientDriver;
inline constexpr int kNoDevice = cuda_abi::cudaErrorNoDevice;
inline constexpr int kInvalidDevice = cuda_abi::cudaErrorInvalidDevice;
inline constexpr int kNoContext = cuda_abi::cudaErrorDeviceUninitialized;
inline constexpr int kSymbolNotFound = cuda_abi::cudaErrorSymbolNotFound;
inline constexpr int kNotReady = cuda_abi::cudaErrorNotReady;
inline constexpr int kFirstOfCapture = cuda_abi::cudaErrorStreamCaptureUnsupported;
inline constexpr int kLastOfCapture = cuda_abi::cudaErrorStreamCaptureWrongThread;
inline constexpr int kCaptureNone = cuda_abi::cudaStreamCaptureStatusNone;
inline constexpr int kCaptureOfThread = cuda_abi::cudaStreamCaptureModeThreadLocal;
inline constexpr int kCaptureRelaxed = cuda_abi::cudaStreamCaptureModeRelaxed;
inline constexpr unsigned kNonBlocking = cuda_abi::cudaStreamNonBlocking;
inline constexpr unsigned kPortable = cuda_abi::cudaHostAllocPortable;
inline constexpr int kHostToDevice = cuda_abi::cudaMemcpyHostToDevice;
inline constexpr int kDeviceToHost = cuda_abi::cudaMemcpyDeviceToHost;
inline constexpr int kDeviceToDevice = cuda_abi::cudaMemcpyDeviceToDevice;
}  // namespace runtime_code

}  // namespace tunableop
