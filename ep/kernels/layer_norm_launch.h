// How the kernels of layer_norm.h are called.
#pragma once

#include "kernels/layer_norm_args.h"
#include "kernels/rows.h"

namespace tunableop::device {

// What is normalised: the dimensions before the normalised ones, of which there are `columns`
// elements. Those of `skip` and of x are broadcast. Null: left out. No output may be an input, but
// that `out` may be the memory of an x of its shape.
struct LayerNormTensors {
  const void* x = nullptr;
  DimsView x_rows;
  const void* skip = nullptr;
  DimsView skip_rows;
  const void* bias = nullptr;
  const void* gamma = nullptr;
  const void* beta = nullptr;
  void* out = nullptr;
  void* sum = nullptr;
  float* mean = nullptr;
  float* inverse = nullptr;
};

// `bytes`: of one element. Nothing: x and skip do not broadcast, or there are 2^30 rows and more.
std::optional<Prepared<LayerNormArgs>> PrepareLayerNorm(const LayerNormTensors& tensors,
                                                        int64_t columns, double epsilon,
                                                        size_t bytes) noexcept;

}  // namespace tunableop::device
