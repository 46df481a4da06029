// What tests call, by ctypes or dlsym, in any library of a flavour.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/error.h"

extern "C" {
// Replaces the faults (core/faults.cc has the list) and starts their counting anew. "": none.
SIM_API void sim_gpu_set_faults(const char* specification);
// How often: "mallocs", "frees", "async_mallocs", "streams", "streams_destroyed", "events",
// "events_destroyed", "copies", "bytes_copied", "fills", "syncs", "device_syncs", "matmuls",
// "kernels", "kernels:ID", "transforms", "heuristics", "algo_checks", "handles",
// "handles_destroyed", "descriptors", "descriptors_destroyed", "captures", "graphs",
// "graph_launches", "programs", "programs_destroyed", "compiles", "compiling_at_once:N", "modules",
// "modules_unloaded", "launches" (of loaded code), "device_kernels" (that ran),
// "device_kernels:NAME", "hanging", "illegal_address", "misuse", "misuse:WHAT".
SIM_API int64_t sim_gpu_count(const char* what);
SIM_API void sim_gpu_reset_counts();
// Ends kernels that hang.
SIM_API void sim_gpu_release();
// The card is as new: its sticky error is gone. Memory and streams stay.
SIM_API void sim_gpu_heal();
SIM_API size_t sim_gpu_memory_used(int card);
SIM_API int sim_gpu_shape_class(int64_t m, int64_t n, int64_t k);
// core/cost.h. `type`: 0 fp32, 1 fp64, 2 fp16, 3 bf16.
SIM_API double sim_gpu_algo_ms(int type, int64_t m, int64_t n, int64_t k, int64_t batch, int id,
                               int tile_m, int tile_n, int stages, int splits, int variant,
                               int cold);
}
