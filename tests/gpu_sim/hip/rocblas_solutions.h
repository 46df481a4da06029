// What the simulated rocBLAS's handle and calls hold, and its solutions: 24 for each combination of
// types and transposes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/cost.h"
#include "core/gemm.h"

namespace simgpu::blas {

// rocblas_status
enum Status : int {
  kSuccess = 0,
  kInvalidHandle = 1,
  kNotImplemented = 2,
  kInvalidPointer = 3,
  kInvalidSize = 4,
  kMemoryError = 5,
  kInternalError = 6,
  kInvalidValue = 11,
  kArchMismatch = 15,
};
struct Handle {
  static constexpr uint32_t kMagic = 0x51AB1A50;
  uint32_t magic = kMagic;
  int ordinal = 0;
  void* stream = nullptr;
  bool device_scalars = false;
  bool atomics = true;
  char* workspace = nullptr;
  size_t workspace_bytes = 0;
  std::atomic<int> calls{0};  // that are in it now
};

struct Call {
  simgpu::Gemm gemm;  // with addresses of the card
  int types = 0;      // TypesAt
  int transposes = 0;
  Type scale_type = Type::kF32;
  const void* alpha = nullptr;
  const void* beta = nullptr;
};

inline constexpr int kSolutions = 24;

Type TypeOf(int type);  // of a rocblas_datatype
// In kTypes; -1: there is no kernel for these.
int TypesAt(int ab, int cd, int compute);
Algo AlgoAt(int position);
int IndexAt(const Call& call, int position);
bool Runs(const Handle& handle, const Call& call, int position);
Summation HowAt(const Call& call, int position);
// The position of the default kernel; -1: none runs.
int DefaultOf(const Handle& handle, const Call& call);

}  // namespace simgpu::blas
