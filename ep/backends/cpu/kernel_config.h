// One native kernel, as a value and as its name:
//   avx512:6x64/kc384/mc192/rows/pb/pa/pf32/nx
//   |      |    |     |     |    |  |  |    +- while the tiles pass over one block of B, the next
//   |      |    |     |     |    |  |  |       one is fetched into the second-level cache
//   |      |    |     |     |    |  |  +- software prefetch of B, rows of the packed group ahead
//   |      |    |     |     |    |  +- A is copied block by block (always so when A is transposed)
//   |      |    |     |     |    +- a plain B is packed block by block (always when transposed)
//   |      |    |     |     +- how the work is divided over threads: none, rows, cols, grid, batch
//   |      |    |     +- rows of A in a block; absent: all
//   |      |    +- k in a block; absent: all
//   |      +- register tile; or "dot": sums along k, for one row or column of C
//   +- instruction set
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backends/cpu/micro.h"
#include "backends/cpu/work_division.h"
#include "gemm/status.h"

namespace tunableop::cpu {

struct KernelConfig {
  const MicroKernels* kernels = nullptr;
  bool dot = false;
  int rows = 0;     // of the register tile
  int vectors = 0;  // width of the register tile
  int64_t kc = 0;   // 0: k is not blocked
  int64_t mc = 0;   // 0: m is not blocked
  Split split = Split::kNone;
  bool pack_b = false;
  bool pack_a = false;
  int64_t prefetch = 0;  // rows of B ahead; 0: none
  bool ahead = false;    // fetch the next block of B

  bool operator==(const KernelConfig&) const = default;
};

std::string ToName(const KernelConfig& config);

// kNotFound: not a name, a tile that the instruction set does not have, or one this machine lacks.
Result<KernelConfig> ParseName(std::string_view name);

}  // namespace tunableop::cpu
