#include "cuda/cublaslt_algos.h"

#include <algorithm>
#include <iterator>

#include "core/faults.h"
#include "core/flavour.h"

namespace simgpu {
namespace {

struct Tile {
  uint32_t id;
  int m;
  int n;
};
// cublasLtMatmulTile_t
constexpr Tile kTiles[] = {{11, 32, 32},   {12, 32, 64},  {13, 64, 32},   {15, 64, 64},
                           {17, 64, 128},  {18, 128, 64}, {20, 128, 128}, {23, 128, 256},
                           {24, 256, 128}, {31, 192, 128}};

constexpr uint32_t kSmall[] = {11, 15, 18};
constexpr uint32_t kMiddle[] = {11, 12, 13, 15, 18, 20};
constexpr uint32_t kLarge[] = {15, 17, 18, 20, 23, 24};
constexpr uint32_t kHopper[] = {15, 17, 18, 20, 23, 24, 31};
// cublasLtMatmulStages_t: 32x1, 32x2; 64x3, 64x4; 64xAUTO, 128xAUTO
constexpr uint32_t kStages32[] = {7, 8};
constexpr uint32_t kStages64[] = {15, 16};
constexpr uint32_t kStagesAuto[] = {35, 36};
// cublasLtClusterShape_t: chosen by the library; 1x1x1, 2x1x1, 1x2x1
constexpr uint16_t kClusters[] = {0, 2, 3, 5};
constexpr uint16_t kNoCluster[] = {0};

constexpr Family kFamilies[] = {
    {0, kSmall, {}, false, 0, 0, false, kNoCluster, 4, true},
    {1, kSmall, {}, false, 0, 0, false, kNoCluster, 2, true},  // odd sizes of half types
    {6, kMiddle, kStages32, true, 7, 1, true, kNoCluster, 4, true},
    {10, kSmall, kStages32, true, 2, 0, false, kNoCluster, 8, false},
    {20, kMiddle, {}, true, 2, 2, false, kNoCluster, 4, true},
    {21, kLarge, kStages64, true, 6, 2, true, kNoCluster, 16, true},
    {24, kLarge, kStages64, false, 0, 1, false, kNoCluster, 16, false},
    {31, kMiddle, kStages64, true, 7, 0, true, kNoCluster, 8, true},
    {66, kHopper, kStagesAuto, true, 2, 0, false, kClusters, 16, true},
};

constexpr int kIdsF64[] = {0, 10};
constexpr int kIdsF32[] = {0, 6, 20};
constexpr int kIdsFast[] = {6, 21, 31, 66};
constexpr int kIdsHalf[] = {1, 6, 21, 24, 31, 66};

constexpr int kHeuristicSplits[] = {1, 2, 4, 8, 16};

std::vector<int> ListOf(std::span<const int> ids) { return {ids.begin(), ids.end()}; }

template <typename T, typename V>
bool Has(T values, V value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

bool TypeOf(int cuda_type, Type* type) {
  switch (cuda_type) {
    case 0:  // CUDA_R_32F
      *type = Type::kF32;
      return true;
    case 1:  // CUDA_R_64F
      *type = Type::kF64;
      return true;
    case 2:  // CUDA_R_16F
      *type = Type::kF16;
      return true;
    case 14:  // CUDA_R_16BF
      *type = Type::kBF16;
      return true;
    default:
      return false;
  }
}

uint32_t TypesKey(int compute, int scale, int a, int b, int c, int d) {
  return (((((static_cast<uint32_t>(compute) * 16 + static_cast<uint32_t>(scale)) * 16 +
             static_cast<uint32_t>(a)) *
                16 +
            static_cast<uint32_t>(b)) *
               16 +
           static_cast<uint32_t>(c)) *
          16) +
         static_cast<uint32_t>(d);
}

const Family* FamilyOf(int id) {
  const auto* const found = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                         [id](const Family& family) { return family.id == id; });
  return found == std::end(kFamilies) ? nullptr : found;
}

std::vector<int> Ids(int compute, int scale, int a, int b, int c, int d) {
  if (a != b || FaultOn("lt_unsupported")) return {};
  const bool half = a == 2 || a == 14;
  switch (compute) {
    case 70:  // CUBLAS_COMPUTE_64F
    case 71:
      return scale == 1 && a == 1 && c == 1 && d == 1 ? ListOf(kIdsF64) : std::vector<int>{};
    case 68:  // CUBLAS_COMPUTE_32F
    case 69:
      if (scale != 0 || c != d) return {};
      if (a == 0) return c == 0 ? ListOf(kIdsF32) : std::vector<int>{};
      return half && (c == a || c == 0) ? ListOf(kIdsHalf) : std::vector<int>{};
    case 74:  // CUBLAS_COMPUTE_32F_FAST_16F, _16BF, _TF32
    case 75:
    case 77:
      return scale == 0 && a == 0 && c == 0 && d == 0 ? ListOf(kIdsFast) : std::vector<int>{};
    case 64:  // CUBLAS_COMPUTE_16F
    case 65:
      return scale == 2 && a == 2 && c == 2 && d == 2 ? ListOf(kIdsHalf) : std::vector<int>{};
    default:
      return {};
  }
}

int Validate(const Config& config, const LtProblem& problem, size_t* workspace) {
  *workspace = 0;
  const Family* const family = FamilyOf(config.id);
  if (config.magic != kConfigMagic || family == nullptr) return kInvalidValue;
  if (config.version != static_cast<uint32_t>(ThisFlavour().lt_version)) return kNotSupported;
  const uint32_t types = TypesKey(problem.compute, problem.scale_type, problem.a_type,
                                  problem.a_type, problem.c_type, problem.d_type);
  if (config.types != types || !Has(family->tiles, config.tile)) return kNotSupported;
  if (family->stages.empty() ? config.stages != 0 : !Has(family->stages, config.stages)) {
    return kNotSupported;
  }
  if (config.custom > family->custom_max || config.swizzle > (family->swizzle ? 1u : 0u) ||
      !Has(family->clusters, config.cluster) || config.inner != 0) {
    return kNotSupported;
  }
  if (problem.epilogue != 1 && !family->epilogues) return kNotSupported;
  const Gemm& gemm = problem.gemm;
  if (config.splits < 1 || config.splits > 64) return kNotSupported;
  if (config.splits == 1) {
    if (config.reduction != kReductionNone) return kNotSupported;
  } else {
    const uint32_t scheme = config.reduction;
    if (!family->splits || (scheme & family->reductions) != scheme) return kNotSupported;
    if (scheme != kReductionInPlace && scheme != kReductionComputeType &&
        scheme != kReductionOutputType) {
      return kNotSupported;
    }
    if (gemm.k / config.splits < 16) return kNotSupported;
    if (scheme == kReductionInPlace &&
        (gemm.d.type != Type::kF32 || gemm.batch > 1 || problem.epilogue != 1)) {
      return kNotSupported;
    }
  }
  for (const uint32_t step : problem.step) {
    if (step % family->alignment != 0) return kNotSupported;
  }
  if (config.reduction != kReductionInPlace) {
    *workspace = PartialBytes(gemm, SummationOf(config, problem));
  }
  return kSuccess;
}

Algo AlgoOf(const Config& config) {
  Algo algo;
  algo.id = config.id;
  for (const Tile& tile : kTiles) {
    if (tile.id != config.tile) continue;
    algo.tile_m = tile.m;
    algo.tile_n = tile.n;
  }
  algo.stages = static_cast<int>(config.stages);
  algo.splits = static_cast<int>(config.splits);
  algo.variant = static_cast<int>(config.reduction + 8 * config.swizzle + 16 * config.custom +
                                  256 * config.cluster);
  return algo;
}

Summation SummationOf(const Config& config, const LtProblem& problem) {
  Summation how;
  how.splits = static_cast<int>(config.splits);
  how.partial = problem.gemm.compute == Compute::kF64 ? Type::kF64 : Type::kF32;
  if (config.reduction == kReductionOutputType) how.partial = problem.gemm.d.type;
  return how;
}

std::vector<Config> Heuristic(const LtProblem& problem, const LtPreference& preference,
                              size_t count) {
  std::vector<Config> configs;
  for (const int id : Ids(problem.compute, problem.scale_type, problem.a_type, problem.a_type,
                          problem.c_type, problem.d_type)) {
    const Family& family = *FamilyOf(id);
    const bool aligned =
        std::all_of(std::begin(preference.alignment), std::end(preference.alignment),
                    [&](uint32_t a) { return a % family.alignment == 0; });
    if (!aligned) continue;
    Config config;
    config.magic = kConfigMagic;
    config.id = id;
    config.types = TypesKey(problem.compute, problem.scale_type, problem.a_type, problem.a_type,
                            problem.c_type, problem.d_type);
    config.version = static_cast<uint32_t>(ThisFlavour().lt_version);
    const std::vector<uint32_t> stages =
        family.stages.empty() ? std::vector<uint32_t>{0}
                              : std::vector<uint32_t>(family.stages.begin(), family.stages.end());
    for (const uint32_t tile : family.tiles) {
      for (const uint32_t stage : stages) {
        for (const int splits : kHeuristicSplits) {
          for (const uint32_t reduction :
               {kReductionNone, kReductionInPlace, kReductionComputeType, kReductionOutputType}) {
            if ((reduction & preference.reductions) != reduction) continue;
            for (const uint16_t cluster : family.clusters) {
              config.tile = tile;
              config.stages = stage;
              config.splits = static_cast<uint32_t>(splits);
              config.reduction = reduction;
              config.cluster = cluster;
              size_t workspace = 0;
              if (Validate(config, problem, &workspace) != kSuccess) continue;
              if (workspace <= preference.workspace) configs.push_back(config);
            }
          }
        }
      }
    }
  }
  std::vector<Algo> algos;
  algos.reserve(configs.size());
  for (const Config& config : configs) algos.push_back(AlgoOf(config));
  const Gemm& gemm = problem.gemm;
  const CostProblem cost{gemm.a.type, gemm.m, gemm.n, gemm.k, gemm.batch};
  std::vector<Config> list;
  for (const int i : HeuristicOrder(cost, algos)) {
    if (list.size() == count) break;
    list.push_back(configs[static_cast<size_t>(i)]);
  }
  return list;
}

}  // namespace simgpu
