// libhipblaslt: the C++ functions of namespace hipblaslt_ext, under their mangled names.
#include <cstddef>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/faults.h"
#include "core/flavour.h"
#include "hip/hipblaslt_types.h"

using simgpu::HipKind;
using simgpu::HipResult;

namespace {

// Of the types and transposes; nothing of a problem is known yet.
HipResult ResultOf(const HipKind& kind, int position) {
  HipResult result;
  result.algo.index = simgpu::IndexOf(kind, position);
  return result;
}

bool Locate(const _hipblasLtMatmulAlgo_t& algo, HipKind* kind, int* position) {
  return simgpu::FindIndex(algo.index, kind, position);
}

}  // namespace

namespace hipblaslt_ext {

enum class GemmType { HIPBLASLT_GEMM = 1, HIPBLASLT_GROUPED_GEMM = 2 };

SIM_API hipblasStatus_t getAllAlgos(void* handle, GemmType gemm_type, hipblasOperation_t op_a,
                                    hipblasOperation_t op_b, hipDataType a, hipDataType b,
                                    hipDataType c, hipDataType d, hipblasComputeType_t compute,
                                    std::vector<_hipblasLtMatmulHeuristicResult_t>& results) {
  if (const auto status = simgpu::CheckHipHandle(handle); status != kHipSuccess) return status;
  results.clear();
  const HipKind kind{compute, a, c, op_a != kHipOpN, op_b != kHipOpN};
  if (gemm_type != GemmType::HIPBLASLT_GEMM || a != b || c != d || !simgpu::KnownKind(kind)) {
    return kHipNotSupported;
  }
  simgpu::Count("all_algos");
  for (int i = 0; i < simgpu::kSolutions; ++i) results.push_back(ResultOf(kind, i));
  return kHipSuccess;
}

SIM_API int getIndexFromAlgo(_hipblasLtMatmulAlgo_t& algo) { return algo.index; }

SIM_API hipblasStatus_t getAlgosFromIndex(void* handle, std::vector<int>& indices,
                                          std::vector<_hipblasLtMatmulHeuristicResult_t>& results) {
  if (const auto status = simgpu::CheckHipHandle(handle); status != kHipSuccess) return status;
  results.clear();
  for (const int index : indices) {
    HipKind kind;
    int position = 0;
    if (simgpu::FindIndex(index, &kind, &position)) results.push_back(ResultOf(kind, position));
  }
  return results.empty() ? kHipInvalidValue : kHipSuccess;
}

// Bakes the problem into the algo.
SIM_API hipblasStatus_t matmulIsAlgoSupported(void* handle, hipblasLtMatmulDescOpaque_t* descriptor,
                                              const void* alpha, hipblasLtMatrixLayoutOpaque_t* a,
                                              hipblasLtMatrixLayoutOpaque_t* b, const void* beta,
                                              hipblasLtMatrixLayoutOpaque_t* c,
                                              hipblasLtMatrixLayoutOpaque_t* d,
                                              _hipblasLtMatmulAlgo_t& algo, size_t& workspace) {
  if (const auto status = simgpu::CheckHipHandle(handle); status != kHipSuccess) return status;
  if (alpha == nullptr || beta == nullptr) return kHipInvalidValue;
  simgpu::HipProblem problem;
  const auto described = simgpu::DescribeHip(descriptor, a, b, c, d, &problem);
  if (described != kHipSuccess) return described;
  simgpu::Count("algo_checks");
  HipKind kind;
  int position = 0;
  size_t needed = 0;
  if (!Locate(algo, &kind, &position) || simgpu::IndexOf(problem.kind, position) != algo.index ||
      !RunsHere(problem, position, &needed)) {
    return kHipInvalidValue;
  }
  algo.prepared_for = simgpu::Preparation(problem);
  algo.max_workspace_bytes = needed;
  workspace = needed;
  return kHipSuccess;
}

SIM_API std::string getSolutionNameFromAlgo(void*, _hipblasLtMatmulAlgo_t& algo) {
  HipKind kind;
  int position = 0;
  return Locate(algo, &kind, &position) ? simgpu::SolutionName(kind, position) : "";
}

SIM_API std::string getKernelNameFromAlgo(void*, _hipblasLtMatmulAlgo_t& algo) {
  HipKind kind;
  int position = 0;
  return Locate(algo, &kind, &position) ? simgpu::KernelName(kind, position) : "";
}

SIM_API std::string gemmType2String(GemmType type) {
  return type == GemmType::HIPBLASLT_GEMM ? "gemm" : "grouped_gemm";
}

SIM_API hipblasStatus_t copyMatmul(hipblasLtMatmulDescOpaque_t* from,
                                   hipblasLtMatmulDescOpaque_t* to) {
  const auto* const source = simgpu::Checked<simgpu::LtDescriptor>(static_cast<const void*>(from));
  auto* const target = simgpu::Checked<simgpu::LtDescriptor>(static_cast<void*>(to));
  if (source == nullptr || target == nullptr) return kHipInvalidValue;
  *target = *source;
  return kHipSuccess;
}

SIM_API bool matmulIsTuned(void*, hipblasLtMatmulDescOpaque_t*, hipblasLtMatrixLayoutOpaque_t*,
                           hipblasLtMatrixLayoutOpaque_t*, hipblasLtMatrixLayoutOpaque_t*,
                           hipblasLtMatrixLayoutOpaque_t*) {
  return false;
}

}  // namespace hipblaslt_ext
