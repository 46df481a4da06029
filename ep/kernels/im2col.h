// What a convolution multiplies, as matrices. T0: w2, w4 or w8. Entry: im2col.
#include "kernels/access.h"
#include "kernels/im2col_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;

// What is left of a number after its last digit, which becomes `digit`.
TUNABLEOP_DEVICE UInt32 TakeDigit(UInt32 number, const Divisor& by, Int32& digit) {
  const UInt32 rest = Quotient(number, by);
  digit = static_cast<Int32>(number - rest * by.divisor);
  return rest;
}

// A thread for each element of the matrix: neighbours write side by side, and read so where the
// stride is 1.
TUNABLEOP_KERNEL(im2col, Im2ColArgs) {
  const UInt32 count = static_cast<UInt32>(args.matrix);
  for (Int64 image = BlockY(); image < args.images; image += BlocksY()) {
    const T* const x = static_cast<const T*>(args.x) + image * args.image;
    T* const out = static_cast<T*>(args.out) + image * args.matrix;
    for (UInt32 i = GlobalThread(); i < count; i += GlobalThreads()) {
      Int32 place[3];
      Int32 within[3];  // the filter
      UInt32 left = i;
      TUNABLEOP_UNROLL
      for (int d = 2; d >= 0; --d) left = TakeDigit(left, args.by_out[d], place[d]);
      TUNABLEOP_UNROLL
      for (int d = 2; d >= 0; --d) left = TakeDigit(left, args.by_filter[d], within[d]);
      Int64 from = left;  // the channel
      bool inside = true;
      TUNABLEOP_UNROLL
      for (int d = 0; d < 3; ++d) {
        const Int32 at = place[d] * args.stride[d] - args.pad[d] + within[d] * args.dilation[d];
        inside = inside && at >= 0 && at < args.size[d];
        from = from * args.size[d] + at;
      }
      out[i] = inside ? x[from] : static_cast<T>(0);
    }
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
