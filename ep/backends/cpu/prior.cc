#include "backends/cpu/prior.h"

#include <algorithm>

#include "backends/cpu/native_plan.h"

namespace tunableop::cpu {
namespace {

struct TileShape {
  int rows;
  int vectors;
};

}  // namespace

std::vector<KernelConfig> RankedConfigs(const MicroKernels& kernels, const Problem& problem,
                                        CandidateScope scope) {
  const Problem p = Flattened(problem);
  std::vector<KernelConfig> configs;
  const auto add = [&configs](const KernelConfig& config) {
    if (std::find(configs.begin(), configs.end(), config) == configs.end()) {
      configs.push_back(config);
    }
  };
  Split split = Split::kNone;
  if (p.threads > 1)
    split = p.batch > 1 ? Split::kBatch : p.m >= 64 ? Split::kRows : Split::kColumns;
  if (DotSupports(p)) {
    KernelConfig config;
    config.kernels = &kernels;
    config.dot = true;
    config.split = split;
    add(config);
  }
  for (int vectors = kMaxTileVectors; vectors > 0; --vectors) {
    if (kernels.max_rows[vectors] == 0) continue;
    for (int64_t kc : {0, 256, 384, 512, 1024}) {
      KernelConfig config;
      config.kernels = &kernels;
      config.rows = kernels.max_rows[vectors];
      config.vectors = vectors;
      config.kc = kc;
      config.split = split;
      add(config);
    }
  }
  if (scope == CandidateScope::kDefault && configs.size() > 4) configs.resize(4);
  return configs;
}

}  // namespace tunableop::cpu
