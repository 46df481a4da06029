// Rotary position embedding. T0: the type of everything but positions. Entries: rotary, in which a
// position that the caches have no row for gives zeros, and rotary_halves, with a cosine and a sine
// for each number.
#include "kernels/access.h"
#include "kernels/rotary_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;
using Math = MathOf<T>;

// The row of the caches for a token; less than zero: none.
TUNABLEOP_DEVICE Int64 RowOf(const RotaryArgs& args, UInt32 batch, UInt32 token) {
  const Int64 number = static_cast<Int64>(batch) * args.sequence + token;
  Int64 row = number;
  if (args.each == 0) {
    row = token;
    if (args.positions != nullptr) {
      row = args.first != 0 ? args.positions[0] + token : args.positions[number];
    }
  }
  return row < args.rows ? row : -1;
}

// A thread for each pair of each head of each token.
TUNABLEOP_KERNEL(rotary, RotaryArgs) {
  const UInt32 count = static_cast<UInt32>(args.batch * args.sequence * args.heads) * args.pairs;
  for (UInt32 i = GlobalThread(); i < count; i += GlobalThreads()) {
    const UInt32 unit = Quotient(i, args.by_pairs);
    const UInt32 pair = i - unit * args.pairs;
    const UInt32 above = Quotient(unit, args.by_heads);
    const UInt32 head = unit - above * args.by_heads.divisor;
    const UInt32 batch = Quotient(above, args.by_sequence);
    const UInt32 token = above - batch * args.by_sequence.divisor;
    const T* const x = static_cast<const T*>(args.x) + batch * args.x_strides[0] +
                       token * args.x_strides[1] + head * args.x_strides[2];
    T* const out = static_cast<T*>(args.out) + batch * args.out_strides[0] +
                   token * args.out_strides[1] + head * args.out_strides[2];
    if (pair >= args.half) {
      const UInt32 at = pair * 2;
      out[at] = x[at];
      if (at + 1 < args.head) out[at + 1] = x[at + 1];
      continue;
    }
    const UInt32 left = args.interleaved != 0 ? pair * 2 : pair;
    const UInt32 right = args.interleaved != 0 ? left + 1 : pair + args.half;
    const Int64 row = RowOf(args, batch, token);
    Math cosine = 0;
    Math sine = 0;
    if (row >= 0) {
      cosine = Number<T>::Read(static_cast<const T*>(args.cosines)[row * args.half + pair]);
      sine = Number<T>::Read(static_cast<const T*>(args.sines)[row * args.half + pair]);
    }
    const Math a = Number<T>::Read(x[left]);
    const Math b = Number<T>::Read(x[right]);
    out[left] = Number<T>::Write(a * cosine - b * sine);
    out[right] = Number<T>::Write(b * cosine + a * sine);
  }
}

template <int kPack, class Index>
TUNABLEOP_DEVICE void RunHalves(const RotaryHalvesArgs& args) {
  const Index count = static_cast<Index>(args.rows.count * args.steps);
  for (Index i = GlobalThread(); i < count; i += GlobalThreads()) {
    const Int64 row = static_cast<Int64>(Quotient(i, args.by_steps, args.steps));
    const Int64 left = (static_cast<Int64>(i) - row * args.steps) * kPack;
    const Int64 right = left + args.half;
    Int32 at[3];
    OffsetsOf(args.rows, static_cast<UInt32>(row), at);
    const T* const x = static_cast<const T*>(args.x) + at[0];
    const T* const cosines = static_cast<const T*>(args.cosines) + at[1];
    const T* const sines = static_cast<const T*>(args.sines) + at[2];
    T* const out = static_cast<T*>(args.out) + row * args.half * 2;
    const Pack<T, kPack> a = LoadPack<T, kPack>(x + left);
    const Pack<T, kPack> b = LoadPack<T, kPack>(x + right);
    const Pack<T, kPack> a_cosines = LoadPack<T, kPack>(cosines + left);
    const Pack<T, kPack> b_cosines = LoadPack<T, kPack>(cosines + right);
    const Pack<T, kPack> a_sines = LoadPack<T, kPack>(sines + left);
    const Pack<T, kPack> b_sines = LoadPack<T, kPack>(sines + right);
    Pack<T, kPack> first;
    Pack<T, kPack> second;
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) {
      const Math u = Number<T>::Read(a.at[e]);
      const Math v = Number<T>::Read(b.at[e]);
      first.at[e] = Number<T>::Write(u * Number<T>::Read(a_cosines.at[e]) -
                                     v * Number<T>::Read(a_sines.at[e]));
      second.at[e] = Number<T>::Write(v * Number<T>::Read(b_cosines.at[e]) +
                                      u * Number<T>::Read(b_sines.at[e]));
    }
    StorePack(out + left, first);
    StorePack(out + right, second);
  }
}

TUNABLEOP_KERNEL(rotary_halves, RotaryHalvesArgs) {
  if (args.packed != 0) {
    if (args.wide != 0) {
      RunHalves<kPackOf<T>, UInt64>(args);
    } else {
      RunHalves<kPackOf<T>, UInt32>(args);
    }
  } else if (args.wide != 0) {
    RunHalves<1, UInt64>(args);
  } else {
    RunHalves<1, UInt32>(args);
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
