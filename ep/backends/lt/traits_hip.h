// What is AMD's about the Lt interface: names, numbers and sizes.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "abi/hip_api.h"
#include "gemm/device.h"
#include "gemm/problem.h"

namespace tunableop::lt {

// Attributes 102 and 103 of a descriptor are never set: they mean something else before 1.0.
struct HipTraits {
  static constexpr std::string_view kLibrary = "hipblaslt";
  static constexpr std::string_view kBackend = "hip";
  static constexpr std::string_view kPrefix = "hipblasLt";  // of every C function

  using Algo = hip_abi::hipblasLtMatmulAlgo_t;
  using HeuristicResult = hip_abi::hipblasLtMatmulHeuristicResult_t;
  using CreateFn = hip_abi::hipblasLtCreate_fn;
  using DestroyFn = hip_abi::hipblasLtDestroy_fn;
  using LayoutCreateFn = hip_abi::hipblasLtMatrixLayoutCreate_fn;
  using LayoutDestroyFn = hip_abi::hipblasLtMatrixLayoutDestroy_fn;
  using LayoutSetFn = hip_abi::hipblasLtMatrixLayoutSetAttribute_fn;
  using DescCreateFn = hip_abi::hipblasLtMatmulDescCreate_fn;
  using DescDestroyFn = hip_abi::hipblasLtMatmulDescDestroy_fn;
  using DescSetFn = hip_abi::hipblasLtMatmulDescSetAttribute_fn;
  using PreferenceCreateFn = hip_abi::hipblasLtMatmulPreferenceCreate_fn;
  using PreferenceDestroyFn = hip_abi::hipblasLtMatmulPreferenceDestroy_fn;
  using PreferenceSetFn = hip_abi::hipblasLtMatmulPreferenceSetAttribute_fn;
  using HeuristicFn = hip_abi::hipblasLtMatmulAlgoGetHeuristic_fn;
  using MatmulFn = hip_abi::hipblasLtMatmul_fn;

  static constexpr int kOpN = hip_abi::HIPBLAS_OP_N;
  static constexpr int kOpT = hip_abi::HIPBLAS_OP_T;
  static constexpr int kDescTransA = hip_abi::HIPBLASLT_MATMUL_DESC_TRANSA;
  static constexpr int kDescTransB = hip_abi::HIPBLASLT_MATMUL_DESC_TRANSB;
  static constexpr int kDescEpilogue = hip_abi::HIPBLASLT_MATMUL_DESC_EPILOGUE;
  static constexpr int kDescBiasPointer = hip_abi::HIPBLASLT_MATMUL_DESC_BIAS_POINTER;
  static constexpr int kDescBiasType = hip_abi::HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE;
  static constexpr int kLayoutBatchCount = hip_abi::HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
  static constexpr int kLayoutStride = hip_abi::HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
  static constexpr int kPrefWorkspace = hip_abi::HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
  static constexpr int kEpilogueDefault = hip_abi::HIPBLASLT_EPILOGUE_DEFAULT;
  static constexpr int kEpilogueRelu = hip_abi::HIPBLASLT_EPILOGUE_RELU;
  static constexpr int kEpilogueBias = hip_abi::HIPBLASLT_EPILOGUE_BIAS;
  static constexpr int kEpilogueReluBias = hip_abi::HIPBLASLT_EPILOGUE_RELU_BIAS;

  static constexpr bool kPrefersAlignment = false;  // there is no such preference

  // It gives as many as are asked for: the default is what is worth a race, all is what the
  // predecessors in ONNX Runtime asked for.
  static constexpr int kDefaultRequest = 16;
  static constexpr int kAllRequest = 256;
  // The library loads code at a kernel's first launch, which from ROCm 7 on spoils captures, of
  // this thread and of others (rccl#2022).
  using CurrentForRun = CurrentAside;
  // A product writes its sizes into what the descriptor keeps for the kernel library, so a
  // descriptor belongs to one call at a time.
  static constexpr bool kDescriptorIsMutable = true;
  // Kernels take strides as 32-bit numbers of elements.
  static constexpr int64_t kMaxStride = std::numeric_limits<int32_t>::max();

  static constexpr int TypeOf(DataType type) noexcept {
    switch (type) {
      case DataType::kFloat16:
        return hip_abi::HIP_R_16F;
      case DataType::kBFloat16:
        return hip_abi::HIP_R_16BF;
      case DataType::kFloat64:
        return hip_abi::HIP_R_64F;
      case DataType::kFloat32:
        break;
    }
    return hip_abi::HIP_R_32F;
  }
  // Cards without XF32 (all but gfx94x) have no kernel for 32F_FAST_TF32.
  static constexpr int ComputeOf(DataType type, Precision precision) noexcept {
    if (type == DataType::kFloat64) return hip_abi::HIPBLAS_COMPUTE_64F;
    if (type == DataType::kFloat32 && precision == Precision::kTf32) {
      return hip_abi::HIPBLAS_COMPUTE_32F_FAST_TF32;
    }
    if (type == DataType::kFloat32 && precision == Precision::kBf16) {
      return hip_abi::HIPBLAS_COMPUTE_32F_FAST_16BF;
    }
    return hip_abi::HIPBLAS_COMPUTE_32F;
  }

  static constexpr int kAllocFailed = hip_abi::HIPBLAS_STATUS_ALLOC_FAILED;
  static constexpr int kNotSupported = hip_abi::HIPBLAS_STATUS_NOT_SUPPORTED;
  static constexpr int kArchMismatch = hip_abi::HIPBLAS_STATUS_ARCH_MISMATCH;
  static constexpr const char* StatusName(int status) noexcept {
    switch (status) {
      case hip_abi::HIPBLAS_STATUS_NOT_INITIALIZED:
        return "HIPBLAS_STATUS_NOT_INITIALIZED";
      case hip_abi::HIPBLAS_STATUS_ALLOC_FAILED:
        return "HIPBLAS_STATUS_ALLOC_FAILED";
      case hip_abi::HIPBLAS_STATUS_INVALID_VALUE:
        return "HIPBLAS_STATUS_INVALID_VALUE";
      case hip_abi::HIPBLAS_STATUS_MAPPING_ERROR:
        return "HIPBLAS_STATUS_MAPPING_ERROR";
      case hip_abi::HIPBLAS_STATUS_EXECUTION_FAILED:
        return "HIPBLAS_STATUS_EXECUTION_FAILED";
      case hip_abi::HIPBLAS_STATUS_INTERNAL_ERROR:
        return "HIPBLAS_STATUS_INTERNAL_ERROR";
      case hip_abi::HIPBLAS_STATUS_NOT_SUPPORTED:
        return "HIPBLAS_STATUS_NOT_SUPPORTED";
      case hip_abi::HIPBLAS_STATUS_ARCH_MISMATCH:
        return "HIPBLAS_STATUS_ARCH_MISMATCH";
      case hip_abi::HIPBLAS_STATUS_HANDLE_IS_NULLPTR:
        return "HIPBLAS_STATUS_HANDLE_IS_NULLPTR";
      case hip_abi::HIPBLAS_STATUS_INVALID_ENUM:
        return "HIPBLAS_STATUS_INVALID_ENUM";
      default:
        return "an unknown status";
    }
  }
};

}  // namespace tunableop::lt
