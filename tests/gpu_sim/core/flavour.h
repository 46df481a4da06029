// Which release of which vendor a set of libraries stands for. One small object per flavour is all
// that differs between them.
#pragma once

#include "core/error.h"

namespace simgpu {

struct Flavour {
  const char* name;  // "cuda13"
  bool amd;
  int runtime_version;  // as the runtime gives it
  int driver_version;
  long lt_version;          // as cublasLtGetVersion and hipblasLtGetVersion give it
  const char* lt_revision;  // hipblasLtGetGitRevision
  const char* blas_version;
  int rocm;  // 6, 7, 10; 0: CUDA
};

SIM_API const Flavour& ThisFlavour();

}  // namespace simgpu
