// The search beyond cublasLt's own list, which has 8 entries at most: algorithms times tiles times
// stages times what else can be set. There are too many to try them all (150,000 valid ones for
// some shapes in fp16), and of what is drawn blindly one or two in a hundred are valid.
#include <algorithm>
#include <array>
#include <limits>
#include <unordered_set>

#include "backends/lt/cuda_kernels.h"

namespace tunableop::lt {
namespace {

namespace abi = cuda_abi;

// A check of settings takes about 1 us when they are refused (measured with 13.1), and this bounds
// what one call may take: the search is on a budget of some 100 ms.
constexpr size_t MaxChecks(size_t count) { return 1000 + 100 * std::min(count, size_t{100}); }
// An algorithm of which so many draws were refused is given up for this problem.
constexpr size_t kPatience = 96;
constexpr int kMaxAlgorithms = 256;  // 13.1 has 26
constexpr std::array<int32_t, 11> kSplits = {2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32};
// cublasLtClusterShape_t: 1x1x1 up to 1x16x1; beyond are odd sizes. 0: the library decides.
constexpr uint16_t kFirstCluster = 2;
constexpr uint16_t kLastCluster = 16;
// cublasLtMatmulInnerShape_t: up to MMA16816. 0: the library decides.
constexpr uint16_t kLastInner = 4;

uint16_t DrawCluster(Random& random) {
  return static_cast<uint16_t>(kFirstCluster + random.Below(kLastCluster - kFirstCluster + 1U));
}

}  // namespace

CudaKernels::Choices CudaKernels::ReadChoices(const ColumnMajorGemm& gemm, int32_t id,
                                              const Traits::Algo& algo) const {
  const auto number = [&](int attribute) {
    int32_t value = 0;
    size_t written = 0;
    return functions_.cap(&algo, attribute, &value, sizeof(value), &written) == 0 ? value : 0;
  };
  const auto list = [&](int attribute) {
    size_t bytes = 0;
    std::vector<uint32_t> values;
    if (functions_.cap(&algo, attribute, nullptr, 0, &bytes) == 0 && bytes >= sizeof(uint32_t)) {
      values.resize(bytes / sizeof(uint32_t));
      if (functions_.cap(&algo, attribute, values.data(), bytes, &bytes) != 0) values.clear();
    }
    if (values.empty()) values.push_back(0);  // UNDEFINED: nothing to choose
    return values;
  };
  Choices choices;
  choices.id = id;
  choices.algo = algo;
  choices.tiles = list(abi::CUBLASLT_ALGO_CAP_TILE_IDS);
  choices.stages = list(abi::CUBLASLT_ALGO_CAP_STAGES_IDS);
  choices.can_split_k = number(abi::CUBLASLT_ALGO_CAP_SPLITK_SUPPORT) != 0;
  const uint32_t reductions =
      static_cast<uint32_t>(number(abi::CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK)) &
      CudaTraits::ReductionsOf(gemm.type, gemm.precision);
  for (uint32_t bit = 1; bit < uint32_t{abi::CUBLASLT_REDUCTION_SCHEME_MASK}; bit *= 2) {
    if ((reductions & bit) != 0) choices.reductions.push_back(bit);
  }
  const auto options = [&](int attribute) {
    return static_cast<uint32_t>(std::clamp(number(attribute), 0, 255)) + 1;
  };
  choices.swizzles = options(abi::CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT);
  choices.customs = options(abi::CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX);
  return choices;
}

const std::vector<CudaKernels::Choices>& CudaKernels::AllChoices(
    const Core<CudaTraits>& core, const ColumnMajorGemm& gemm) const {
  const auto [entry, is_new] = choices_.try_emplace(Kind(gemm.type, gemm.precision));
  if (!is_new || functions_.ids == nullptr || functions_.init == nullptr) return entry->second;
  const int type = CudaTraits::TypeOf(gemm.type);
  std::vector<int> ids(kMaxAlgorithms);
  int found = 0;
  if (functions_.ids(core.handle.get(), CudaTraits::ComputeOf(gemm.type, gemm.precision),
                     CudaTraits::TypeOf(ScaleTypeOf(gemm.type)), type, type, type, type,
                     kMaxAlgorithms, ids.data(), &found) != 0) {
    found = 0;
  }
  ids.resize(static_cast<size_t>(std::clamp(found, 0, kMaxAlgorithms)));
  std::sort(ids.begin(), ids.end());
  for (const int id : ids) {
    Result<Traits::Algo> algo = Init(core, gemm, id);
    if (algo.ok()) entry->second.push_back(ReadChoices(gemm, id, algo.value()));
  }
  return entry->second;
}

AlgoConfig CudaKernels::DrawConfig(const Choices& choices, bool clusters, Random& random) const {
  AlgoConfig config;
  ReadConfig(choices.algo, config);
  config.tile = random.Of(std::span<const uint32_t>(choices.tiles));
  config.stages = random.Of(std::span<const uint32_t>(choices.stages));
  config.swizzle = static_cast<uint32_t>(random.Below(choices.swizzles));
  config.custom = static_cast<uint32_t>(random.Below(choices.customs));
  config.split_k = 1;
  config.reduction = abi::CUBLASLT_REDUCTION_SCHEME_NONE;
  if (choices.can_split_k && !choices.reductions.empty() && random.Below(2) == 0) {
    config.split_k = random.Of(std::span<const int32_t>(kSplits));
    config.reduction = random.Of(std::span<const uint32_t>(choices.reductions));
  }
  if (clusters && random.Below(2) == 0) config.cluster = DrawCluster(random);
  return config;
}

std::vector<Kernel<CudaTraits>> CudaKernels::Draw(const Core<CudaTraits>& core,
                                                  const Description<CudaTraits>& description,
                                                  std::span<const std::string_view> names,
                                                  Random& random, size_t count,
                                                  const IsKnown& is_known) const {
  struct Algorithm {
    const Choices* choices;
    bool is_named = false;
    size_t draws = 0;
    size_t hits = 0;
    size_t cluster_draws = 0;
    size_t cluster_hits = 0;
  };
  std::unordered_set<int32_t> named;
  for (const std::string_view name : names) {
    if (const std::optional<AlgoConfig> config = ParseName(name)) named.insert(config->id);
  }
  // Those in names first.
  std::vector<Algorithm> algorithms;
  for (const Choices& choices : AllChoices(core, description.gemm)) {
    if (FitsAlignment(choices.algo, description.gemm)) {
      algorithms.push_back({&choices, named.contains(choices.id)});
    }
  }
  std::stable_partition(algorithms.begin(), algorithms.end(),
                        [](const Algorithm& one) { return one.is_named; });
  std::vector<Kernel<CudaTraits>> kernels;
  std::unordered_set<std::string> tried;
  for (size_t check = MaxChecks(count); check > 0 && kernels.size() < count && !algorithms.empty();
       --check) {
    const auto first_other =
        static_cast<size_t>(std::find_if(algorithms.begin(), algorithms.end(),
                                         [](const Algorithm& one) { return !one.is_named; }) -
                            algorithms.begin());
    const size_t at =
        random.Below(first_other != 0 && random.Below(2) == 0 ? first_other : algorithms.size());
    Algorithm& algorithm = algorithms[at];
    const bool clusters = algorithm.cluster_hits > 0 || algorithm.cluster_draws < kPatience;
    const AlgoConfig config = DrawConfig(*algorithm.choices, clusters, random);
    const bool has_cluster = config.cluster >= kFirstCluster;
    ++algorithm.draws;
    algorithm.cluster_draws += has_cluster ? 1 : 0;
    Kernel<CudaTraits> kernel{ToName(config), -1, {}};
    if (tried.insert(kernel.name).second &&
        Check(core, description, config, algorithm.choices->algo, kernel).ok()) {
      ++algorithm.hits;
      algorithm.cluster_hits += has_cluster ? 1 : 0;
      if (!is_known(kernel.name)) kernels.push_back(std::move(kernel));
    }
    if (algorithm.hits == 0 && algorithm.draws >= kPatience) {
      algorithms.erase(algorithms.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  return kernels;
}

void CudaKernels::Change(const Choices& choices, Random& random, AlgoConfig& config) const {
  switch (random.Below(7)) {
    case 0:
      config.tile = random.Of(std::span<const uint32_t>(choices.tiles));
      break;
    case 1: {
      // A tile of a similar size: the library numbers them so.
      const auto at = std::find(choices.tiles.begin(), choices.tiles.end(), config.tile);
      const auto place = static_cast<size_t>(at - choices.tiles.begin());
      const size_t first = place < 3 ? 0 : place - 3;
      const size_t last = std::min(choices.tiles.size(), place + 4);
      config.tile = choices.tiles[first + random.Below(last - first)];
      break;
    }
    case 2:
      config.stages = random.Of(std::span<const uint32_t>(choices.stages));
      break;
    case 3:
      config.split_k = 1;
      config.reduction = abi::CUBLASLT_REDUCTION_SCHEME_NONE;
      if (choices.can_split_k && !choices.reductions.empty() && random.Below(4) != 0) {
        config.split_k = random.Of(std::span<const int32_t>(kSplits));
        config.reduction = random.Of(std::span<const uint32_t>(choices.reductions));
      }
      break;
    case 4:
      config.swizzle = static_cast<uint32_t>(random.Below(choices.swizzles));
      break;
    case 5:
      config.custom = static_cast<uint32_t>(random.Below(choices.customs));
      break;
    default:
      if (random.Below(4) == 0) {
        config.inner = static_cast<uint16_t>(random.Below(kLastInner + 1U));
      } else {
        config.cluster = random.Below(8) == 0 ? uint16_t{0} : DrawCluster(random);
      }
  }
}

std::vector<Kernel<CudaTraits>> CudaKernels::Near(const Core<CudaTraits>& core,
                                                  const Description<CudaTraits>& description,
                                                  std::string_view name, Random& random,
                                                  size_t count, const IsKnown& is_known) const {
  std::vector<Kernel<CudaTraits>> kernels;
  const std::optional<AlgoConfig> base = ParseName(name);
  if (!base) return kernels;
  const std::vector<Choices>& all = AllChoices(core, description.gemm);
  const auto choices =
      std::find_if(all.begin(), all.end(), [&](const Choices& one) { return one.id == base->id; });
  if (choices == all.end() || !FitsAlignment(choices->algo, description.gemm)) return kernels;
  std::unordered_set<std::string> tried{std::string(name)};
  for (size_t check = MaxChecks(count) / 2; check > 0 && kernels.size() < count; --check) {
    AlgoConfig config = *base;
    Change(*choices, random, config);
    if (random.Below(4) == 0) Change(*choices, random, config);
    Kernel<CudaTraits> kernel{ToName(config), -1, {}};
    if (tried.insert(kernel.name).second && !is_known(kernel.name) &&
        Check(core, description, config, choices->algo, kernel).ok()) {
      kernels.push_back(std::move(kernel));
    }
  }
  return kernels;
}

}  // namespace tunableop::lt
