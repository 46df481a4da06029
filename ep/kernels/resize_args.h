// The arguments of the kernels that make images larger or smaller.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// Where a place of the output lies in x, by ONNX's names.
enum class ResizePlace : UInt32 {
  kHalfPixel,
  kHalfPixelOfMore,  // pytorch_half_pixel: of more than one place
  kHalfPixelSymmetric,
  kAlignCorners,
  kAsymmetric
};
enum class ResizeRound : UInt32 { kPreferFloor, kPreferCeil, kFloor, kCeil };

// Innermost dimension first. Dimensions whose scale is 1 are as they are.
struct ResizeArgs {
  const void* x;
  void* out;
  Int64 count;            // of the output
  Int64 sizes[kMaxRank];  // of x
  Int64 outs[kMaxRank];   // of the output
  Int64 strides[kMaxRank];
  float scales[kMaxRank];
  float offsets[kMaxRank];  // added to each place
  UInt32 rank;
  ResizePlace place;
  ResizeRound round;
};

}  // namespace tunableop::device
