// libcublasLt: asking for kernels and configuring them.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/attributes.h"
#include "core/error.h"
#include "core/faults.h"
#include "core/flavour.h"
#include "cuda/cublaslt_algos.h"
#include "cuda/cublaslt_problem.h"

using simgpu::Attribute;
using simgpu::Config;
using simgpu::Family;
using simgpu::kInvalidValue;
using simgpu::kNotSupported;
using simgpu::kSuccess;

namespace {

// cublasLtMatmulHeuristicResult_t
struct Result {
  Config algo;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Result) == 96);

constexpr int kMostResults = 8;

constexpr Attribute kConfig[] = {
    {1, offsetof(Config, tile), 4},      {2, offsetof(Config, splits), 4},
    {3, offsetof(Config, reduction), 4}, {4, offsetof(Config, swizzle), 4},
    {5, offsetof(Config, custom), 4},    {6, offsetof(Config, stages), 4},
    {7, offsetof(Config, inner), 2},     {8, offsetof(Config, cluster), 2},
};
constexpr Attribute kConfigId[] = {{0, offsetof(Config, id), 4}};

template <typename T>
int Answer(std::span<const T> values, void* to, size_t size, size_t* written) {
  const size_t bytes = values.size_bytes();
  if (written != nullptr) *written = bytes;
  if (size == 0) return kSuccess;
  if (to == nullptr || size < bytes) return kInvalidValue;
  if (bytes != 0) std::memcpy(to, values.data(), bytes);
  return kSuccess;
}
template <typename T>
int Answer(T value, void* to, size_t size, size_t* written) {
  return Answer(std::span<const T>(&value, 1), to, size, written);
}

float Waves(const simgpu::LtProblem& problem, const Config& config) {
  const simgpu::Algo algo = AlgoOf(config);
  const int64_t rows = (problem.gemm.m + algo.tile_m - 1) / algo.tile_m;
  const int64_t columns = (problem.gemm.n + algo.tile_n - 1) / algo.tile_n;
  const auto tiles = static_cast<float>(rows * columns * problem.gemm.batch * algo.splits);
  return tiles / 132;
}

}  // namespace

extern "C" {

SIM_API int cublasLtMatmulAlgoGetHeuristic(void* handle, void* descriptor, void* a, void* b,
                                           void* c, void* d, void* preference, int requested,
                                           void* results, int* returned) {
  if (returned == nullptr || results == nullptr || requested < 1) return kInvalidValue;
  *returned = 0;
  simgpu::LtProblem problem;
  if (const int status = simgpu::CheckHandle(handle); status != kSuccess) return status;
  const int status = simgpu::Describe(descriptor, a, b, c, d, &problem);
  if (status != kSuccess) return status;
  const auto* const wanted = simgpu::Checked<simgpu::LtPreference>(preference);
  if (wanted == nullptr) return kInvalidValue;
  simgpu::Count("heuristics");
  if (simgpu::FaultOn("heuristic_fails")) return simgpu::kInternalError;
  if (simgpu::FaultOn("no_heuristics")) return kNotSupported;
  const std::vector<Config> list = simgpu::Heuristic(
      problem, *wanted, static_cast<size_t>(requested < kMostResults ? requested : kMostResults));
  auto* const out = static_cast<Result*>(results);
  for (const Config& config : list) {
    Result result{};
    result.algo = config;
    Validate(config, problem, &result.workspace);
    result.waves = Waves(problem, config);
    out[(*returned)++] = result;
  }
  return *returned == 0 ? kNotSupported : kSuccess;
}

SIM_API int cublasLtMatmulAlgoGetIds(void* handle, int compute, int scale, int a, int b, int c,
                                     int d, int requested, int* ids, int* returned) {
  if (const int status = simgpu::CheckHandle(handle); status != kSuccess) return status;
  if (requested < 1 || ids == nullptr || returned == nullptr) return kInvalidValue;
  *returned = 0;
  for (const int id : simgpu::Ids(compute, scale, a, b, c, d)) {
    if (*returned < requested) ids[(*returned)++] = id;
  }
  return *returned == 0 ? kNotSupported : kSuccess;
}

SIM_API int cublasLtMatmulAlgoInit(void* handle, int compute, int scale, int a, int b, int c, int d,
                                   int id, void* algo) {
  if (const int status = simgpu::CheckHandle(handle); status != kSuccess) return status;
  if (algo == nullptr) return kInvalidValue;
  bool known = false;
  for (const int each : simgpu::Ids(compute, scale, a, b, c, d)) known = known || each == id;
  if (!known) return kNotSupported;
  Config config;
  config.magic = simgpu::kConfigMagic;
  config.id = id;
  config.types = simgpu::TypesKey(compute, scale, a, b, c, d);
  config.version = static_cast<uint32_t>(simgpu::ThisFlavour().lt_version);
  std::memcpy(algo, &config, sizeof config);
  return kSuccess;
}

SIM_API int cublasLtMatmulAlgoCheck(void* handle, void* descriptor, void* a, void* b, void* c,
                                    void* d, const void* algo, void* result) {
  if (const int status = simgpu::CheckHandle(handle); status != kSuccess) return status;
  if (algo == nullptr || result == nullptr) return kInvalidValue;
  simgpu::LtProblem problem;
  if (const int status = simgpu::Describe(descriptor, a, b, c, d, &problem); status != kSuccess) {
    return status;
  }
  simgpu::Count("algo_checks");
  auto* const out = static_cast<Result*>(result);
  Result answer{};
  std::memcpy(&answer.algo, algo, sizeof answer.algo);
  answer.state = Validate(answer.algo, problem, &answer.workspace);
  if (answer.state == kSuccess) answer.waves = Waves(problem, answer.algo);
  *out = answer;
  return answer.state;
}

SIM_API int cublasLtMatmulAlgoCapGetAttribute(const void* algo, int capability, void* to,
                                              size_t size, size_t* written) {
  if (algo == nullptr) return kInvalidValue;
  Config config;
  std::memcpy(&config, algo, sizeof config);
  const Family* const family = simgpu::FamilyOf(config.id);
  if (config.magic != simgpu::kConfigMagic || family == nullptr) return kInvalidValue;
  switch (capability) {
    case 0:  // SPLITK_SUPPORT
      return Answer<int32_t>(family->splits ? 1 : 0, to, size, written);
    case 1:  // REDUCTION_SCHEME_MASK
      return Answer<uint32_t>(family->reductions, to, size, written);
    case 2:  // CTA_SWIZZLING_SUPPORT
      return Answer<uint32_t>(family->swizzle ? 1 : 0, to, size, written);
    case 3:  // STRIDED_BATCH_SUPPORT
    case 4:  // OUT_OF_PLACE_RESULT_SUPPORT
      return Answer<int32_t>(1, to, size, written);
    case 5:   // UPLO_SUPPORT
    case 10:  // CUSTOM_MEMORY_ORDER
    case 14:  // LD_NEGATIVE
      return Answer<int32_t>(0, to, size, written);
    case 6:  // TILE_IDS
      return Answer<uint32_t>(family->tiles, to, size, written);
    case 7:  // CUSTOM_OPTION_MAX
      return Answer<int32_t>(static_cast<int32_t>(family->custom_max), to, size, written);
    case 11:  // POINTER_MODE_MASK: host, device
      return Answer<uint32_t>(3, to, size, written);
    case 12:  // EPILOGUE_MASK
      return Answer<uint32_t>(family->epilogues ? 1 | 2 | 4 | 32 : 1, to, size, written);
    case 13: {  // STAGES_IDS
      constexpr uint32_t kUndefined[] = {0};
      const std::span<const uint32_t> none(kUndefined);
      return Answer<uint32_t>(family->stages.empty() ? none : family->stages, to, size, written);
    }
    case 15:  // NUMERICAL_IMPL_FLAGS
      return Answer<uint64_t>(0, to, size, written);
    case 16:  // MIN_ALIGNMENT_A_BYTES and B, C, D
    case 17:
    case 18:
    case 19:
      return Answer<uint32_t>(family->alignment, to, size, written);
    default:
      return kInvalidValue;
  }
}

SIM_API int cublasLtMatmulAlgoConfigSetAttribute(void* algo, int number, const void* from,
                                                 size_t size) {
  if (algo == nullptr) return kInvalidValue;
  const auto result = simgpu::Set(algo, kConfig, number, from, size);
  return result == simgpu::AttributeResult::kOk ? kSuccess : kInvalidValue;
}

SIM_API int cublasLtMatmulAlgoConfigGetAttribute(const void* algo, int number, void* to,
                                                 size_t size, size_t* written) {
  if (algo == nullptr) return kInvalidValue;
  const std::span<const Attribute> table =
      number == 0 ? std::span<const Attribute>(kConfigId) : std::span<const Attribute>(kConfig);
  const auto result = simgpu::Get(algo, table, number, to, size, written);
  return result == simgpu::AttributeResult::kOk ? kSuccess : kInvalidValue;
}

}  // extern "C"
