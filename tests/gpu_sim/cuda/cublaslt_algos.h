// The kernels of the simulated cuBLASLt: families (ids) with what each can be configured to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/cost.h"
#include "core/gemm.h"
#include "core/lt_objects.h"

namespace simgpu {

// cublasStatus_t
inline constexpr int kSuccess = 0;
inline constexpr int kNotInitialized = 1;
inline constexpr int kAllocFailed = 3;
inline constexpr int kInvalidValue = 7;
inline constexpr int kExecutionFailed = 13;
inline constexpr int kInternalError = 14;
inline constexpr int kNotSupported = 15;

// cublasLtReductionScheme_t
inline constexpr uint32_t kReductionNone = 0;
inline constexpr uint32_t kReductionInPlace = 1;
inline constexpr uint32_t kReductionComputeType = 2;
inline constexpr uint32_t kReductionOutputType = 4;

// What a cublasLtMatmulAlgo_t holds here: 64 bytes.
struct Config {
  uint32_t magic = 0;
  int32_t id = -1;
  uint32_t tile = 0;
  uint32_t splits = 1;
  uint32_t reduction = 0;
  uint32_t swizzle = 0;
  uint32_t custom = 0;
  uint32_t stages = 0;
  uint16_t inner = 0;
  uint16_t cluster = 0;
  uint32_t types = 0;    // TypesKey of what it was made for
  uint32_t version = 0;  // of the library
  uint32_t reserved[5] = {};
};
static_assert(sizeof(Config) == 64);
inline constexpr uint32_t kConfigMagic = 0x51A1607B;

// The operation that descriptors and layouts describe.
struct LtProblem {
  Gemm gemm;  // without addresses
  int32_t compute = 0;
  int32_t scale_type = 0;
  int32_t a_type = 0;
  int32_t c_type = 0;
  int32_t d_type = 0;
  uint32_t epilogue = 1;
  // Bytes that a, b, c and d start and step on, by their layouts alone.
  uint32_t step[4] = {};
};

struct Family {
  int id;
  std::span<const uint32_t> tiles;
  std::span<const uint32_t> stages;  // empty: not configurable
  bool splits;
  uint32_t reductions;
  uint32_t custom_max;
  bool swizzle;
  std::span<const uint16_t> clusters;
  uint32_t alignment;  // bytes, of all four
  bool epilogues;
};

uint32_t TypesKey(int compute, int scale, int a, int b, int c, int d);
// Null: there is none.
const Family* FamilyOf(int id);
// Ascending. Empty: the types are not supported.
std::vector<int> Ids(int compute, int scale, int a, int b, int c, int d);

bool TypeOf(int cuda_type, Type* type);
// kSuccess, or why the configuration cannot run the problem; bytes of workspace that it takes.
int Validate(const Config& config, const LtProblem& problem, size_t* workspace);
Algo AlgoOf(const Config& config);
// In the order of the heuristic; at most `count`.
std::vector<Config> Heuristic(const LtProblem& problem, const LtPreference& preference,
                              size_t count);
Summation SummationOf(const Config& config, const LtProblem& problem);

}  // namespace simgpu
