// What is NVIDIA's about the Lt interface: names, numbers and sizes.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "abi/cuda_api.h"
#include "gemm/device.h"
#include "gemm/problem.h"

namespace tunableop::lt {

struct CudaTraits {
  static constexpr std::string_view kLibrary = "cublaslt";
  static constexpr std::string_view kBackend = "cuda";
  static constexpr std::string_view kPrefix = "cublasLt";  // of every C function

  using Algo = cuda_abi::cublasLtMatmulAlgo_t;
  using HeuristicResult = cuda_abi::cublasLtMatmulHeuristicResult_t;
  using CreateFn = cuda_abi::cublasLtCreate_fn;
  using DestroyFn = cuda_abi::cublasLtDestroy_fn;
  using LayoutCreateFn = cuda_abi::cublasLtMatrixLayoutCreate_fn;
  using LayoutDestroyFn = cuda_abi::cublasLtMatrixLayoutDestroy_fn;
  using LayoutSetFn = cuda_abi::cublasLtMatrixLayoutSetAttribute_fn;
  using DescCreateFn = cuda_abi::cublasLtMatmulDescCreate_fn;
  using DescDestroyFn = cuda_abi::cublasLtMatmulDescDestroy_fn;
  using DescSetFn = cuda_abi::cublasLtMatmulDescSetAttribute_fn;
  using PreferenceCreateFn = cuda_abi::cublasLtMatmulPreferenceCreate_fn;
  using PreferenceDestroyFn = cuda_abi::cublasLtMatmulPreferenceDestroy_fn;
  using PreferenceSetFn = cuda_abi::cublasLtMatmulPreferenceSetAttribute_fn;
  using HeuristicFn = cuda_abi::cublasLtMatmulAlgoGetHeuristic_fn;
  using MatmulFn = cuda_abi::cublasLtMatmul_fn;

  static constexpr int kOpN = cuda_abi::CUBLAS_OP_N;
  static constexpr int kOpT = cuda_abi::CUBLAS_OP_T;
  static constexpr int kDescTransA = cuda_abi::CUBLASLT_MATMUL_DESC_TRANSA;
  static constexpr int kDescTransB = cuda_abi::CUBLASLT_MATMUL_DESC_TRANSB;
  static constexpr int kDescEpilogue = cuda_abi::CUBLASLT_MATMUL_DESC_EPILOGUE;
  static constexpr int kDescBiasPointer = cuda_abi::CUBLASLT_MATMUL_DESC_BIAS_POINTER;
  static constexpr int kDescBiasType = cuda_abi::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE;
  static constexpr int kLayoutBatchCount = cuda_abi::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
  static constexpr int kLayoutStride = cuda_abi::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
  static constexpr int kPrefWorkspace = cuda_abi::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
  static constexpr int kEpilogueDefault = cuda_abi::CUBLASLT_EPILOGUE_DEFAULT;
  static constexpr int kEpilogueRelu = cuda_abi::CUBLASLT_EPILOGUE_RELU;
  static constexpr int kEpilogueBias = cuda_abi::CUBLASLT_EPILOGUE_BIAS;
  static constexpr int kEpilogueReluBias = cuda_abi::CUBLASLT_EPILOGUE_RELU_BIAS;

  // Of B, A, C and D in the library's order. Without them it takes every pointer for one that is
  // aligned to 256 bytes.
  static constexpr bool kPrefersAlignment = true;
  static constexpr int kPrefAlignmentFirst = cuda_abi::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  static constexpr int kPrefAlignmentSecond = cuda_abi::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES;
  static constexpr int kPrefAlignmentC = cuda_abi::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES;
  static constexpr int kPrefAlignmentD = cuda_abi::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES;
  static constexpr int kPrefReductions = cuda_abi::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK;

  // How many the heuristic is asked for; it gives 8 at most, however many are asked for (measured
  // with 13.1).
  static constexpr int kDefaultRequest = 8;
  static constexpr int kAllRequest = 64;
  // What the driver loads at a kernel's first launch disturbs no capture.
  using CurrentForRun = CurrentDevice;
  // A descriptor is only read by a product.
  static constexpr bool kDescriptorIsMutable = false;
  static constexpr int64_t kMaxStride = std::numeric_limits<int64_t>::max();

  static constexpr int TypeOf(DataType type) noexcept {
    switch (type) {
      case DataType::kFloat16:
        return cuda_abi::CUDA_R_16F;
      case DataType::kBFloat16:
        return cuda_abi::CUDA_R_16BF;
      case DataType::kFloat64:
        return cuda_abi::CUDA_R_64F;
      case DataType::kFloat32:
        break;
    }
    return cuda_abi::CUDA_R_32F;
  }
  // How the partial sums of a split k may be added up. INPLACE and OUTPUT_TYPE keep them in the
  // type of C, which in 16 bits costs accuracy that nobody has agreed to.
  static constexpr uint32_t ReductionsOf(DataType type, Precision precision) noexcept {
    const bool narrow = type == DataType::kFloat16 || type == DataType::kBFloat16;
    return narrow && precision == Precision::kExact
               ? uint32_t{cuda_abi::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}
               : uint32_t{cuda_abi::CUBLASLT_REDUCTION_SCHEME_MASK};
  }
  static constexpr int ComputeOf(DataType type, Precision precision) noexcept {
    if (type == DataType::kFloat64) return cuda_abi::CUBLAS_COMPUTE_64F;
    if (type == DataType::kFloat32 && precision == Precision::kTf32) {
      return cuda_abi::CUBLAS_COMPUTE_32F_FAST_TF32;
    }
    if (type == DataType::kFloat32 && precision == Precision::kBf16) {
      return cuda_abi::CUBLAS_COMPUTE_32F_FAST_16BF;
    }
    return cuda_abi::CUBLAS_COMPUTE_32F;
  }

  static constexpr int kAllocFailed = cuda_abi::CUBLAS_STATUS_ALLOC_FAILED;
  static constexpr int kNotSupported = cuda_abi::CUBLAS_STATUS_NOT_SUPPORTED;
  static constexpr int kArchMismatch = cuda_abi::CUBLAS_STATUS_ARCH_MISMATCH;
  static constexpr const char* StatusName(int status) noexcept {
    switch (status) {
      case cuda_abi::CUBLAS_STATUS_NOT_INITIALIZED:
        return "CUBLAS_STATUS_NOT_INITIALIZED";
      case cuda_abi::CUBLAS_STATUS_ALLOC_FAILED:
        return "CUBLAS_STATUS_ALLOC_FAILED";
      case cuda_abi::CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
      case cuda_abi::CUBLAS_STATUS_ARCH_MISMATCH:
        return "CUBLAS_STATUS_ARCH_MISMATCH";
      case cuda_abi::CUBLAS_STATUS_MAPPING_ERROR:
        return "CUBLAS_STATUS_MAPPING_ERROR";
      case cuda_abi::CUBLAS_STATUS_EXECUTION_FAILED:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
      case cuda_abi::CUBLAS_STATUS_INTERNAL_ERROR:
        return "CUBLAS_STATUS_INTERNAL_ERROR";
      case cuda_abi::CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
      case cuda_abi::CUBLAS_STATUS_LICENSE_ERROR:
        return "CUBLAS_STATUS_LICENSE_ERROR";
      default:
        return "an unknown status";
    }
  }
};

}  // namespace tunableop::lt
