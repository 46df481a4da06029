// Threads that work on one row together: a part of a wavefront, or a whole block.
#pragma once

#include "kernels/access.h"

namespace tunableop::device {

// The most threads of a block, and so of partial results.
[[maybe_unused]] constexpr int kMostThreads = 512;

// So many packs of its row a thread keeps in registers, where the row is not longer. PlanRows
// knows.
template <int kPack>
constexpr int kRowSteps = kPack >= 8 ? 32 / kPack : 6;

struct Team {
  UInt32 lanes;   // threads in it
  UInt32 lane;    // this one's number in it
  UInt32 number;  // of the team in the grid's x dimension, whose teams there are `count` of
  UInt32 count;
  UInt32 inner;  // so many lanes exchange values directly: a power of two
};

// `lanes`: a power of two of at most 32, or 0: the whole block. Fewer where the block is no
// multiple.
TUNABLEOP_DEVICE Team TeamOf(UInt32 lanes) {
  Team team;
  const UInt32 block = ThreadsOfBlock();
  UInt32 inner = lanes == 0 ? 32 : lanes;
  while (block % inner != 0) inner >>= 1;
  team.inner = inner;
  if (lanes == 0) {
    team.lanes = block;
    team.lane = ThreadInBlock();
    team.number = BlockX();
    team.count = BlocksX();
  } else {
    team.lanes = inner;
    team.lane = ThreadInBlock() & (inner - 1);
    team.number = BlockX() * (block / inner) + ThreadInBlock() / inner;
    team.count = BlocksX() * (block / inner);
  }
  return team;
}

struct Sum {
  template <class M>
  TUNABLEOP_MEMBER M Of(M x, M y) {
    return static_cast<M>(static_cast<WrappingOf<M>>(x) + static_cast<WrappingOf<M>>(y));
  }
};
struct Product {
  template <class M>
  TUNABLEOP_MEMBER M Of(M x, M y) {
    return static_cast<M>(static_cast<WrappingOf<M>>(x) * static_cast<WrappingOf<M>>(y));
  }
};
// NaN wins, whichever side it is on.
struct Largest {
  template <class M>
  TUNABLEOP_MEMBER M Of(M x, M y) {
    return IsNan(x) || x > y ? x : y;
  }
};
struct Smallest {
  template <class M>
  TUNABLEOP_MEMBER M Of(M x, M y) {
    return IsNan(x) || x < y ? x : y;
  }
};

// The values of the whole team, combined: the same for every thread of it. All of them call this.
template <class Op, class M>
TUNABLEOP_DEVICE M Combine(const Team& team, M value) {
  for (UInt32 offset = team.inner >> 1; offset != 0; offset >>= 1) {
    value = Op::Of(value, ShuffleXor(value, offset, team.inner));
  }
  if (team.lanes > team.inner) {  // a whole block
    TUNABLEOP_SHARED M partial[kMostThreads];
    SyncBlock();  // what was there before has been read
    if ((team.lane & (team.inner - 1)) == 0) partial[team.lane / team.inner] = value;
    SyncBlock();
    value = partial[0];
    const UInt32 groups = team.lanes / team.inner;
    for (UInt32 g = 1; g < groups; ++g) value = Op::Of(value, partial[g]);
  }
  return value;
}

}  // namespace tunableop::device
