// What a kernel costs in simulated time, and which kernels a heuristic knows of.
//
// The cost is a function of the problem and the kernel: waves of tiles over the card's units or the
// bytes over its memory, a start, the sum over splits, and up to 15 % by a hash. From a cold cache
// memory is slower and all of it takes 10 to 30 % longer, by a hash too. See AlgoMs in
// core/cost.cc.
//
// What a heuristic says depends on the class of the shape, (m + n + k) % 3, so that tests can know
// what tuning must find:
//   0  the first of its list is the best of all
//   1  the first is at least kGap slower than the best, which is the fourth of the list
//   2  the best, and all that is less than kGap slower, is not in the list: only a search finds it
// "Best" is by the cost from a cold cache.
#pragma once

#include <cstdint>
#include <vector>

#include "core/error.h"
#include "core/number.h"

namespace simgpu {

inline constexpr double kGap = 1.2;

struct Algo {
  int id = 0;  // of the family of kernels, or of the solution
  int tile_m = 64;
  int tile_n = 64;
  int stages = 0;
  int splits = 1;
  int variant = 0;  // all that else tells kernels apart, hashed
};

struct CostProblem {
  Type type = Type::kF32;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch = 1;
};

SIM_API double AlgoMs(const CostProblem& problem, const Algo& algo, bool cold);
SIM_API int ShapeClass(int64_t m, int64_t n, int64_t k);
// Positions in `algos`, in the order in which the heuristic of a problem gives them.
SIM_API std::vector<int> HeuristicOrder(const CostProblem& problem, const std::vector<Algo>& algos);
// A factor around 1 from SIM_GPU_NOISE="amplitude[:seed]".
double Noise();

}  // namespace simgpu
