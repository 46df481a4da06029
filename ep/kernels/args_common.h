// What the kernels' arguments are made of. Read by the provider and by the device's compiler, so:
// plain types of fixed size, no includes.
#pragma once

namespace tunableop::device {

using Int32 = int;
using UInt32 = unsigned int;
using Int64 = long long;
using UInt64 = unsigned long long;

// Dimensions of a kernel after those that lie behind one another in memory were merged.
constexpr int kMaxRank = 8;

// A kernel's grid and block, in threads. The same as the device's LaunchShape.
struct Grid {
  UInt32 x = 1;
  UInt32 y = 1;
  UInt32 z = 1;
  UInt32 block = 1;
  UInt32 shared_bytes = 0;
};

// A divisor whose quotients need no division: n / divisor == (high half of n * multiplier + n) >>
// shift, for n and divisor below 2^31.
struct Divisor {
  UInt32 divisor;
  UInt32 multiplier;
  UInt32 shift;
};

// How a linear index over `dims` becomes one offset, in elements, for each of kOperands tensors.
// Innermost dimension first. All indices and offsets are below 2^31: what is larger is divided into
// slabs, each of which begins `slab_strides` behind the one before.
template <int kOperands>
struct Strided {
  Int64 count;  // elements in all
  Int64 slab;   // elements of a slab, the last one may have fewer
  Int64 slab_strides[kOperands];
  UInt32 rank;
  Divisor dims[kMaxRank];
  Int32 strides[kOperands][kMaxRank];
};

}  // namespace tunableop::device
