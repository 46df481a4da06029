// How the kernels of embed_norm.h are called.
#pragma once

#include <array>

#include "kernels/embed_norm_args.h"
#include "kernels/rows.h"

namespace tunableop::device {

// Null: left out, but gamma.
struct EmbedNormTensors {
  struct Part {
    const void* table = nullptr;
    int64_t rows = 0;
    const void* places = nullptr;
    bool narrow = false;
    DimsView dims;  // of places; where there are none, those of the table without the last
  };
  std::array<Part, 3> parts;  // dims are broadcast
  const void* gamma = nullptr;
  const void* beta = nullptr;
  void* out = nullptr;
  void* sum = nullptr;
};

// `bytes`: of one element. Nothing: the parts do not broadcast, or there are 2^30 rows and more.
std::optional<Prepared<EmbedNormArgs>> PrepareEmbedNorm(const EmbedNormTensors& tensors,
                                                        int64_t columns, double epsilon,
                                                        size_t bytes) noexcept;

}  // namespace tunableop::device
