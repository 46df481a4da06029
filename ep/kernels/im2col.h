// What a convolution multiplies, as matrices. T0: w2, w4 or w8. Entry: im2col.
#include "kernels/access.h"
#include "kernels/im2col_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;

// A thread for each element of the matrix: neighbours write side by side, and read so where the
// stride is 1.
TUNABLEOP_KERNEL(im2col, Im2ColArgs) {
  const UInt32 count = static_cast<UInt32>(args.matrix);
  for (Int64 image = BlockY(); image < args.images; image += BlocksY()) {
    const T* const x = static_cast<const T*>(args.x) + image * args.image;
    T* const out = static_cast<T*>(args.out) + image * args.matrix;
    for (UInt32 i = GlobalThread(); i < count; i += GlobalThreads()) {
      const UInt32 line = Quotient(i, args.by_out_width);
      const UInt32 along = i - line * args.by_out_width.divisor;
      const UInt32 row = Quotient(line, args.by_out_height);
      const UInt32 down = line - row * args.by_out_height.divisor;
      const UInt32 above = Quotient(row, args.by_filter_width);
      const UInt32 column = row - above * args.by_filter_width.divisor;
      const UInt32 channel = Quotient(above, args.by_filter_height);
      const UInt32 filter_row = above - channel * args.by_filter_height.divisor;
      const Int32 at_y = static_cast<Int32>(down) * args.stride[0] - args.pad[0] +
                         static_cast<Int32>(filter_row) * args.dilation[0];
      const Int32 at_x = static_cast<Int32>(along) * args.stride[1] - args.pad[1] +
                         static_cast<Int32>(column) * args.dilation[1];
      const bool inside = at_y >= 0 && at_y < args.height && at_x >= 0 && at_x < args.width;
      const Int64 from = (static_cast<Int64>(channel) * args.height + at_y) * args.width + at_x;
      out[i] = inside ? x[from] : static_cast<T>(0);
    }
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
