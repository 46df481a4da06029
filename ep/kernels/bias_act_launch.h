// How the kernels of bias_act.h are called.
#pragma once

#include "kernels/bias_act_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

// Rows of `columns` elements; a stride is from a row to the next. Null: left out.
struct BiasActTensors {
  const void* x = nullptr;
  int64_t x_stride = 0;
  const void* bias = nullptr;
  const void* gate = nullptr;
  int64_t gate_stride = 0;
  void* out = nullptr;
};

// `bytes`: of one element. `alpha`: of bias_quick_gelu.
Prepared<BiasActArgs> PrepareBiasAct(const BiasActTensors& tensors, int64_t rows, int64_t columns,
                                     double alpha, size_t bytes) noexcept;

}  // namespace tunableop::device
