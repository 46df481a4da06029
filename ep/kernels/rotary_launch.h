// How the kernels of rotary.h are called.
#pragma once

#include <cstddef>

#include "kernels/rotary_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

struct RotaryTensors {
  const void* x = nullptr;
  void* out = nullptr;
  const void* cosines = nullptr;
  const void* sines = nullptr;
  const int64_t* positions = nullptr;
  int64_t cache_rows = 0;  // positions that the caches have a row for
  bool first = false;      // positions is one number, the position of the first token
  bool each = false;       // the caches are [batch, sequence, half]
};

struct RotaryShape {
  int64_t batch = 1;
  int64_t sequence = 1;
  int64_t heads = 1;
  int64_t head = 0;          // numbers of one
  int64_t rotated = 0;       // of them, from the front: even; 0: all
  bool interleaved = false;  // pairs are neighbours
  // x and out are [batch, heads, sequence, head], not [batch, sequence, heads, head].
  bool heads_outside = false;
  // Where x is a part of each token of something, as the queries are of a projection of three: the
  // elements of a token there. Only with heads inside. 0: x is contiguous.
  int64_t x_token = 0;
};

// Nothing: 2^30 pairs and more, or an odd number to be rotated.
std::optional<Prepared<RotaryArgs>> PrepareRotary(const RotaryTensors& tensors,
                                                  const RotaryShape& shape) noexcept;

// All with the same last dimension, an even number; the others are broadcast to those of `out`.
struct RotaryHalvesTensors {
  const void* x = nullptr;
  DimsView x_dims;
  const void* cosines = nullptr;
  DimsView cosines_dims;
  const void* sines = nullptr;
  DimsView sines_dims;
  void* out = nullptr;
  DimsView out_dims;
};

// `bytes`: of one element. Nothing: the shapes do not fit, or there are 2^30 rows and more.
std::optional<Prepared<RotaryHalvesArgs>> PrepareRotaryHalves(const RotaryHalvesTensors& tensors,
                                                              size_t bytes) noexcept;

}  // namespace tunableop::device
