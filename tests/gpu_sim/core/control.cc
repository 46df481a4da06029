#include "core/control.h"

#include "core/card.h"
#include "core/cost.h"
#include "core/faults.h"

extern "C" {

void sim_gpu_set_faults(const char* specification) { simgpu::SetFaults(specification); }
int64_t sim_gpu_count(const char* what) { return simgpu::Counted(what); }
void sim_gpu_reset_counts() { simgpu::ResetCounts(); }
void sim_gpu_release() { simgpu::Release(); }

void sim_gpu_heal() {
  for (const auto& card : simgpu::Cards()) card->lost = simgpu::Err::kOk;
}

size_t sim_gpu_memory_used(int card) {
  return simgpu::Cards()[static_cast<size_t>(card)]->memory.used();
}

int sim_gpu_shape_class(int64_t m, int64_t n, int64_t k) { return simgpu::ShapeClass(m, n, k); }

double sim_gpu_algo_ms(int type, int64_t m, int64_t n, int64_t k, int64_t batch, int id, int tile_m,
                       int tile_n, int stages, int splits, int variant, int cold) {
  const simgpu::CostProblem problem{static_cast<simgpu::Type>(type), m, n, k, batch};
  const simgpu::Algo algo{id, tile_m, tile_n, stages, splits, variant};
  return simgpu::AlgoMs(problem, algo, cold != 0);
}

}  // extern "C"
