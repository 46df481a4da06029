#include "hip/rocblas_solutions.h"

#include <iterator>
#include <vector>

#include "core/faults.h"
#include "core/flavour.h"

namespace simgpu::blas {
namespace {

constexpr int kFirstIndex = 5000;
constexpr int kFromHipblaslt = 20;  // from here on; since ROCm 7 the others have negative indices

// rocblas_datatype of A and B, C and D, and of the sum.
struct Types {
  int ab;
  int cd;
  int compute;
};
constexpr Types kTypes[] = {{151, 151, 151}, {152, 152, 152}, {150, 150, 151}, {168, 168, 151},
                            {150, 151, 151}, {168, 151, 151}, {150, 150, 150}};

struct Tile {
  int m;
  int n;
};
constexpr Tile kTiles[] = {{32, 32}, {64, 32}, {32, 64}, {64, 64}, {128, 64}, {128, 128}};

}  // namespace

Type TypeOf(int type) {
  switch (type) {
    case 150:
      return Type::kF16;
    case 152:
      return Type::kF64;
    case 168:
      return Type::kBF16;
    default:
      return Type::kF32;
  }
}

int TypesAt(int ab, int cd, int compute) {
  for (int i = 0; i < static_cast<int>(std::size(kTypes)); ++i) {
    if (kTypes[i].ab == ab && kTypes[i].cd == cd && kTypes[i].compute == compute) return i;
  }
  return -1;
}

Algo AlgoAt(int position) {
  Algo algo;
  algo.id = position;
  algo.tile_m = kTiles[position % 6].m;
  algo.tile_n = kTiles[position % 6].n;
  algo.stages = position / 6 % 2 + 1;
  algo.splits = position >= 12 ? 8 : 1;
  algo.variant = 1;  // no kernel of hipBLASLt costs the same
  return algo;
}

int IndexAt(const Call& call, int position) {
  const int group = call.types * 4 + call.transposes;
  const int moved = FaultOn("moved_indices") ? (position * 5 + 1) % kSolutions : position;
  const int index = kFirstIndex + group * kSolutions + moved;
  return position < kFromHipblaslt && ThisFlavour().rocm >= 7 ? -index : index;
}

// Sums of splits by atomic additions need the handle's permission.
bool Runs(const Handle& handle, const Call& call, int position) {
  const Algo algo = AlgoAt(position);
  if (algo.splits > 1 && call.gemm.k / algo.splits < 16) return false;
  if (algo.splits > 1 && position % 2 == 1 && !handle.atomics) return false;
  return position % 7 != 6 || call.gemm.k % 4 == 0;
}

Summation HowAt(const Call& call, int position) {
  Summation how;
  how.splits = AlgoAt(position).splits;
  how.partial = call.gemm.compute == Compute::kF64 ? Type::kF64 : Type::kF32;
  return how;
}

int DefaultOf(const Handle& handle, const Call& call) {
  std::vector<int> positions;
  std::vector<Algo> algos;
  for (int i = 0; i < kSolutions; ++i) {
    if (!Runs(handle, call, i)) continue;
    positions.push_back(i);
    algos.push_back(AlgoAt(i));
  }
  const Gemm& gemm = call.gemm;
  const CostProblem cost{gemm.a.type, gemm.m, gemm.n, gemm.k, gemm.batch};
  const std::vector<int> order = HeuristicOrder(cost, algos);
  return order.empty() ? -1 : positions[static_cast<size_t>(order[0])];
}

}  // namespace simgpu::blas
