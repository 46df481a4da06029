// The solutions of the simulated hipBLASLt: forty for each combination of types and transposes.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "core/faults.h"
#include "core/flavour.h"
#include "hip/hipblaslt_types.h"

namespace simgpu {
namespace {

struct Tile {
  int m;
  int n;
};
constexpr Tile kTiles[] = {{32, 32},  {64, 32},  {32, 64},   {64, 64},
                           {128, 64}, {64, 128}, {128, 128}, {256, 128}};

struct Types {
  int compute;
  int ab_type;
  int c_type;
  const char* name;
};
constexpr Types kTypes[] = {
    {kHip32F, kHipF32, kHipF32, "SB"},         {kHip32F, kHipF16, kHipF16, "HHS"},
    {kHip32F, kHipBF16, kHipBF16, "BBS"},      {kHip64F, kHipF64, kHipF64, "DB"},
    {kHip32FFastTF32, kHipF32, kHipF32, "SX"}, {kHip32F, kHipF16, kHipF32, "HSS"},
    {kHip32F, kHipBF16, kHipF32, "BSS"},       {kHip32FFast16BF, kHipF32, kHipF32, "SBX"},
    {kHip32FFast16F, kHipF32, kHipF32, "SHX"},
};
constexpr int kFirstIndex = 1000;

int Plain(int compute) {
  if (compute == kHip32FPedantic) return kHip32F;
  return compute == kHip64FPedantic ? static_cast<int>(kHip64F) : compute;
}

int TypesAt(const HipKind& kind) {
  for (int i = 0; i < static_cast<int>(std::size(kTypes)); ++i) {
    const Types& types = kTypes[i];
    if (types.compute == Plain(kind.compute) && types.ab_type == kind.ab_type &&
        types.c_type == kind.c_type) {
      return i;
    }
  }
  return -1;
}

// An upgrade numbers the same kernels anew.
int Moved(int position) {
  return FaultOn("moved_indices") ? (position * 7 + 3) % kSolutions : position;
}

}  // namespace

bool KnownKind(const HipKind& kind) { return TypesAt(kind) >= 0 && !FaultOn("lt_unsupported"); }

int IndexOf(const HipKind& kind, int position) {
  const int transposes = (kind.trans_a ? 1 : 0) + (kind.trans_b ? 2 : 0);
  return kFirstIndex + (TypesAt(kind) * 4 + transposes) * kSolutions + Moved(position);
}

bool FindIndex(int index, HipKind* kind, int* position) {
  const int group = (index - kFirstIndex) / kSolutions;
  if (index < kFirstIndex || group >= static_cast<int>(std::size(kTypes)) * 4) return false;
  const Types& types = kTypes[group / 4];
  *kind = {types.compute, types.ab_type, types.c_type, (group & 1) != 0, (group & 2) != 0};
  for (int i = 0; i < kSolutions; ++i) {
    if (IndexOf(*kind, i) == index) *position = i;
  }
  return true;
}

// 0..31: every tile with and without splits, in two depths; 32..39: more splits.
Algo HipAlgoAt(const HipKind& kind, int position) {
  Algo algo;
  algo.id = IndexOf(kind, position);
  const Tile& tile = kTiles[position < 32 ? position / 4 : position % 4 + 2];
  algo.tile_m = tile.m;
  algo.tile_n = tile.n;
  algo.stages = position < 32 ? position % 2 + 1 : 2;
  if (position < 32) {
    algo.splits = position % 4 < 2 ? 1 : 4;
  } else {
    algo.splits = position < 36 ? 2 : 16;
  }
  return algo;
}

std::string KernelName(const HipKind& kind, int position) {
  const Algo algo = HipAlgoAt(kind, position);
  char text[160];
  std::snprintf(text, sizeof text, "Cijk_%s_%s_%s_MT%dx%dx16_MI16x16x1_PLR%d",
                kind.trans_a ? "Alik" : "Ailk", kind.trans_b ? "Bjlk" : "Bljk",
                kTypes[TypesAt(kind)].name, algo.tile_m, algo.tile_n, algo.stages);
  return text;
}

std::string SolutionName(const HipKind& kind, int position) {
  return KernelName(kind, position) + "_GSU" + std::to_string(HipAlgoAt(kind, position).splits);
}

Summation HipSummation(const HipProblem& problem, int position) {
  Summation how;
  how.splits = HipAlgoAt(problem.kind, position).splits;
  how.partial = problem.gemm.compute == Compute::kF64 ? Type::kF64 : Type::kF32;
  return how;
}

bool RunsHere(const HipProblem& problem, int position, size_t* workspace) {
  *workspace = 0;
  const Gemm& gemm = problem.gemm;
  const Summation how = HipSummation(problem, position);
  if (how.splits > 1 && gemm.k / how.splits < 16) return false;
  // Some read whole vectors along k; some have no GELU.
  if (position % 5 == 4 && gemm.k % 8 != 0) return false;
  if (position % 8 == 7 && gemm.activation == Activation::kGelu) return false;
  *workspace = PartialBytes(gemm, how);
  return true;
}

uint64_t Preparation(const HipProblem& problem) {
  uint64_t hash = 1;
  for (const int64_t value :
       {problem.gemm.m, problem.gemm.n, problem.gemm.k, problem.gemm.batch,
        static_cast<int64_t>(IndexOf(problem.kind, 0)), static_cast<int64_t>(problem.epilogue)}) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 31;
  }
  return hash | 1;
}

std::vector<HipResult> HipHeuristic(const HipProblem& problem, size_t workspace, size_t count) {
  std::vector<int> positions;
  std::vector<Algo> algos;
  for (int i = 0; i < kSolutions; ++i) {
    size_t needed = 0;
    if (!RunsHere(problem, i, &needed) || needed > workspace) continue;
    positions.push_back(i);
    algos.push_back(HipAlgoAt(problem.kind, i));
    // The order is the kernels', whatever number an upgrade gave them.
    algos.back().id = i;
  }
  const Gemm& gemm = problem.gemm;
  const CostProblem cost{gemm.a.type, gemm.m, gemm.n, gemm.k, gemm.batch};
  std::vector<HipResult> list;
  for (const int i : HeuristicOrder(cost, algos)) {
    if (list.size() == count) break;
    const int position = positions[static_cast<size_t>(i)];
    HipResult result;
    result.algo.index = IndexOf(problem.kind, position);
    result.algo.prepared_for = Preparation(problem);
    RunsHere(problem, position, &result.workspace);
    result.algo.max_workspace_bytes = result.workspace;
    list.push_back(result);
  }
  return list;
}

void Crash(const char* why) {
  std::fprintf(stderr, "gpu_sim: %s: a release as old as this one crashes\n", why);
  static_cast<void>(std::raise(SIGSEGV));
  std::abort();
}

}  // namespace simgpu
