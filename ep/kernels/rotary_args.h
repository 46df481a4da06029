// The arguments of the rotary embedding.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// Of each head, x's first 2 * half numbers are rotated in pairs, by the angle whose cosine and sine
// are in the caches' row for the token's position; the rest is copied. Strides are in elements.
struct RotaryArgs {
  const void* x;
  void* out;
  const void* cosines;  // [positions, half], or without positions [batch, sequence, half]
  const void* sines;
  const Int64* positions;  // [batch, sequence], or see `first`; null: none
  UInt32 first;            // positions has one number, the position of the first token
  UInt32 each;             // caches have a row for each token: nothing is looked up
  UInt32 interleaved;      // pairs are neighbours, not halves of the head
  UInt32 half;
  UInt32 head;   // numbers of one head
  UInt32 pairs;  // of a head: the half ones that turn, then those that are copied, two at a time
  Int64 rows;    // of the caches
  Int64 batch;
  Int64 sequence;
  Int64 heads;
  Divisor by_pairs;
  Divisor by_heads;
  Divisor by_sequence;
  Int64 x_strides[3];  // batch, sequence, heads
  Int64 out_strides[3];
};

// out = x * cosines + (the second half of x's row negated, then the first) * sines, with rows of
// 2 * half numbers in all four.
struct RotaryHalvesArgs {
  const void* x;
  const void* cosines;
  const void* sines;
  void* out;
  Int64 half;
  Int64 steps;  // of a half: elements, or packs where `packed` is set
  Divisor by_steps;
  UInt32 packed;
  UInt32 wide;  // 2^30 steps and more
  // From the output row's number to the element at which the rows of x, cosines and sines begin.
  Strided<3> rows;
};

}  // namespace tunableop::device
