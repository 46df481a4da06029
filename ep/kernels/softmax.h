// Softmax over rows, scaled and masked where that is asked for (entry softmax), and over a
// dimension that is not the last (softmax_inner). T0 is the type of input and output, T1 of the
// mask: T0, or b. A row in which nothing counts is NaN throughout, as by the formula.
#include "kernels/softmax_args.h"
#include "kernels/team.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;
using Mask = types::TUNABLEOP_T1;
using Math = MathOf<T>;

struct Row {
  const T* x;
  const Mask* mask;  // null: none
  T* out;
  Int64 visible;  // columns of it
};

TUNABLEOP_DEVICE Row RowAt(const SoftmaxArgs& args, UInt32 number) {
  Int32 at[1];
  OffsetsOf(args.rows, number, at);
  Row row;
  row.x = static_cast<const T*>(args.x) + number * args.columns;
  row.out = static_cast<T*>(args.out) + number * args.columns;
  row.mask = args.mask == nullptr ? nullptr : static_cast<const Mask*>(args.mask) + at[0];
  row.visible = args.columns;
  if (args.causal != 0) {
    const UInt32 query = number - Quotient(number, args.queries) * args.queries.divisor;
    const Int64 seen = query + 1 + args.past;
    row.visible = seen < args.columns ? seen : args.columns;
  }
  return row;
}

template <class M>
TUNABLEOP_DEVICE Math Masked(const SoftmaxArgs& args, Math z, M mask) {
  if constexpr (Alike<M, types::b>::kValue) {
    const bool seen = (mask.value != 0) != (args.inverted != 0);
    return seen ? z : static_cast<Math>(args.hidden);
  } else {
    return z + Number<M>::Read(mask);
  }
}

template <int kPack>
TUNABLEOP_DEVICE void ReadPack(const SoftmaxArgs& args, const Row& row, Int64 at,
                               Math (&z)[kPack]) {
  const Pack<T, kPack> pack = LoadPack<T, kPack>(row.x + at);
  TUNABLEOP_UNROLL
  for (int e = 0; e < kPack; ++e) {
    z[e] = Number<T>::Read(pack.at[e]) * static_cast<Math>(args.scale);
  }
  if (row.mask != nullptr) {
    if (args.mask_step != 0) {
      const Pack<Mask, kPack> mask = LoadPack<Mask, kPack>(row.mask + at);
      TUNABLEOP_UNROLL
      for (int e = 0; e < kPack; ++e) z[e] = Masked(args, z[e], mask.at[e]);
    } else {
      const Mask mask = *row.mask;
      TUNABLEOP_UNROLL
      for (int e = 0; e < kPack; ++e) z[e] = Masked(args, z[e], mask);
    }
  }
  TUNABLEOP_UNROLL
  for (int e = 0; e < kPack; ++e) {
    if (at + e >= row.visible) z[e] = -static_cast<Math>(Infinity());
  }
}

// What turns a number of the row into its result.
struct Finish {
  Math most;
  Math factor;  // 1 / sum; with `log`: log(sum)
  bool log;

  TUNABLEOP_METHOD Math Of(Math z) const {
    return log ? z - most - factor : Exp(z - most) * factor;
  }
};

template <int kPack>
TUNABLEOP_DEVICE void WritePack(T* to, Int64 at, const Math (&z)[kPack], const Finish& finish) {
  Pack<T, kPack> pack;
  TUNABLEOP_UNROLL
  for (int e = 0; e < kPack; ++e) pack.at[e] = Number<T>::Write(finish.Of(z[e]));
  StorePack(to + at, pack);
}

TUNABLEOP_DEVICE Finish FinishOf(Math most, Math sum, bool log) {
  return Finish{most, log ? Log(sum) : static_cast<Math>(1) / sum, log};
}

// A row that fits into the registers of its threads: it is read once.
template <int kPack>
TUNABLEOP_DEVICE void RunKept(const SoftmaxArgs& args, const Team& team, const Row& row) {
  constexpr int kSteps = kRowSteps<kPack>;
  const UInt32 packs = static_cast<UInt32>(args.columns) / kPack;
  Math z[kSteps][kPack];
  Math most = -static_cast<Math>(Infinity());
  TUNABLEOP_UNROLL
  for (int s = 0; s < kSteps; ++s) {
    const UInt32 p = static_cast<UInt32>(s) * team.lanes + team.lane;
    if (p >= packs) break;
    ReadPack<kPack>(args, row, static_cast<Int64>(p) * kPack, z[s]);
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) most = Largest::Of(most, z[s][e]);
  }
  most = Combine<Largest>(team, most);
  Math sum = 0;
  TUNABLEOP_UNROLL
  for (int s = 0; s < kSteps; ++s) {
    if (static_cast<UInt32>(s) * team.lanes + team.lane >= packs) break;
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) {
      if (args.log != 0) {
        sum += Exp(z[s][e] - most);
      } else {
        z[s][e] = Exp(z[s][e] - most);
        sum += z[s][e];
      }
    }
  }
  sum = Combine<Sum>(team, sum);
  const Finish finish = FinishOf(most, sum, args.log != 0);
  TUNABLEOP_UNROLL
  for (int s = 0; s < kSteps; ++s) {
    const UInt32 p = static_cast<UInt32>(s) * team.lanes + team.lane;
    if (p >= packs) break;
    Pack<T, kPack> pack;
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) {
      const Math value = args.log != 0 ? finish.Of(z[s][e]) : z[s][e] * finish.factor;
      pack.at[e] = Number<T>::Write(value);
    }
    StorePack(row.out + static_cast<Int64>(p) * kPack, pack);
  }
}

// Any row: it is read three times.
template <int kPack>
TUNABLEOP_DEVICE void RunLong(const SoftmaxArgs& args, const Team& team, const Row& row) {
  const Int64 first = static_cast<Int64>(team.lane) * kPack;
  const Int64 step = static_cast<Int64>(team.lanes) * kPack;
  Math z[kPack];
  Math most = -static_cast<Math>(Infinity());
  for (Int64 at = first; at < args.columns; at += step) {
    ReadPack<kPack>(args, row, at, z);
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) most = Largest::Of(most, z[e]);
  }
  most = Combine<Largest>(team, most);
  Math sum = 0;
  for (Int64 at = first; at < args.columns; at += step) {
    ReadPack<kPack>(args, row, at, z);
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) sum += Exp(z[e] - most);
  }
  const Finish finish = FinishOf(most, Combine<Sum>(team, sum), args.log != 0);
  for (Int64 at = first; at < args.columns; at += step) {
    ReadPack<kPack>(args, row, at, z);
    WritePack<kPack>(row.out, at, z, finish);
  }
}

template <int kPack>
TUNABLEOP_DEVICE void RunRows(const SoftmaxArgs& args) {
  const Team team = TeamOf(args.lanes);
  const bool kept = args.columns <= static_cast<Int64>(team.lanes) * kPack * kRowSteps<kPack>;
  for (Int64 number = team.number; number < args.rows.count; number += team.count) {
    const Row row = RowAt(args, static_cast<UInt32>(number));
    if (kept) {
      RunKept<kPack>(args, team, row);
    } else {
      RunLong<kPack>(args, team, row);
    }
  }
}

TUNABLEOP_KERNEL(softmax, SoftmaxArgs) {
  if (args.packed != 0) {
    RunRows<kPackOf<T, Mask>>(args);
  } else {
    RunRows<1>(args);
  }
}

// A thread goes down a whole column; neighbours go down neighbouring ones.
TUNABLEOP_KERNEL(softmax_inner, SoftmaxInnerArgs) {
  const Int64 count = args.outer * args.inner;
  for (Int64 i = GlobalThread(); i < count; i += GlobalThreads()) {
    const Int64 begin = i / args.inner * args.columns * args.inner + i % args.inner;
    const T* const x = static_cast<const T*>(args.x) + begin;
    T* const out = static_cast<T*>(args.out) + begin;
    Math most = -static_cast<Math>(Infinity());
    for (Int64 c = 0; c < args.columns; ++c) {
      most = Largest::Of(most, Number<T>::Read(x[c * args.inner]));
    }
    Math sum = 0;
    for (Int64 c = 0; c < args.columns; ++c) {
      sum += Exp(Number<T>::Read(x[c * args.inner]) - most);
    }
    const Finish finish = FinishOf(most, sum, args.log != 0);
    for (Int64 c = 0; c < args.columns; ++c) {
      out[c * args.inner] = Number<T>::Write(finish.Of(Number<T>::Read(x[c * args.inner])));
    }
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
