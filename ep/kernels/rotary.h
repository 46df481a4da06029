// Rotary position embedding. T0: the type of everything but positions. Entry: rotary. A position
// that the caches have no row for gives zeros.
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

}  // namespace tunableop::device::TUNABLEOP_MODULE
