// The types of hipBLASLt whose names are part of its C++ functions' symbols, and what the files
// here share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/cost.h"
#include "core/gemm.h"
#include "core/lt_objects.h"
#include "core/stream.h"

struct hipblasLtMatmulDescOpaque_t;
struct hipblasLtMatrixLayoutOpaque_t;

enum hipblasOperation_t : int { kHipOpN = 111, kHipOpT = 112, kHipOpC = 113 };
enum hipDataType : int { kHipF32 = 0, kHipF64 = 1, kHipF16 = 2, kHipBF16 = 14 };
enum hipblasComputeType_t : int {
  kHip16F = 0,
  kHip16FPedantic = 1,
  kHip32F = 2,
  kHip32FPedantic = 3,
  kHip32FFast16F = 4,
  kHip32FFast16BF = 5,
  kHip32FFastTF32 = 6,
  kHip64F = 7,
  kHip64FPedantic = 8,
};
enum hipblasStatus_t : int {
  kHipSuccess = 0,
  kHipNotInitialized = 1,
  kHipInvalidValue = 3,
  kHipExecutionFailed = 5,
  kHipInternalError = 6,
  kHipNotSupported = 7,
};

// NOLINTBEGIN(bugprone-reserved-identifier): the vendor's names
// `index`, then what matmulIsAlgoSupported or the heuristic prepared it for.
struct _hipblasLtMatmulAlgo_t {
  int32_t index = -1;
  uint32_t reserved = 0;
  uint64_t prepared_for = 0;
  size_t max_workspace_bytes = 0;
};
static_assert(sizeof(_hipblasLtMatmulAlgo_t) == 24);

struct _hipblasLtMatmulHeuristicResult_t {
  _hipblasLtMatmulAlgo_t algo;
  size_t workspace = 0;
  int state = 0;
  float waves = 1;
  int reserved[4] = {};
};
static_assert(sizeof(_hipblasLtMatmulHeuristicResult_t) == 56);
// NOLINTEND(bugprone-reserved-identifier)

namespace simgpu {

using HipAlgo = _hipblasLtMatmulAlgo_t;
using HipResult = _hipblasLtMatmulHeuristicResult_t;

// The types and transposes that a solution is made for.
struct HipKind {
  int compute = kHip32F;
  int ab_type = kHipF32;
  int c_type = kHipF32;
  bool trans_a = false;
  bool trans_b = false;
};

struct HipProblem {
  Gemm gemm;  // without addresses
  HipKind kind;
  uint32_t epilogue = 1;
};

struct HipHandle {
  static constexpr uint32_t kMagic = 0x51A4D1E1;
  uint32_t magic = kMagic;
  int ordinal = 0;
  // The stream that work through this handle went to last.
  std::shared_ptr<Stream> stream;
  uint64_t ticket = 0;
  std::mutex mutex;
};

inline constexpr int kSolutions = 40;  // of each kind

hipblasStatus_t CheckHipHandle(void* handle);
// Whether there are kernels of this kind at all.
bool KnownKind(const HipKind& kind);
// The index, in this release, of the solution at `position` of a kind; the other way around, false
// when the library has no such index.
int IndexOf(const HipKind& kind, int position);
bool FindIndex(int index, HipKind* kind, int* position);
Algo HipAlgoAt(const HipKind& kind, int position);
std::string SolutionName(const HipKind& kind, int position);
std::string KernelName(const HipKind& kind, int position);

hipblasStatus_t DescribeHip(const void* descriptor, const void* a, const void* b, const void* c,
                            const void* d, HipProblem* problem);
bool RunsHere(const HipProblem& problem, int position, size_t* workspace);
Summation HipSummation(const HipProblem& problem, int position);
std::vector<HipResult> HipHeuristic(const HipProblem& problem, size_t workspace, size_t count);
// What an algo is prepared for: never 0.
uint64_t Preparation(const HipProblem& problem);

// What a real library of an old release answers with a crash: says why and ends the process.
[[noreturn]] void Crash(const char* why);

}  // namespace simgpu
