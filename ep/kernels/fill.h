// Writing what no input holds. T0: w1, w2, w4 or w8. Entries: fill (the same everywhere),
// fill_trilu (a triangle of x, zeros elsewhere).
#include "kernels/access.h"
#include "kernels/fill_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;

TUNABLEOP_KERNEL(fill, FillArgs) {
  T* const out = static_cast<T*>(args.out);
  for (Int64 i = GlobalThread(); i < args.count; i += GlobalThreads()) {
    out[i] = static_cast<T>(args.bits);
  }
}

TUNABLEOP_KERNEL(fill_trilu, TriluArgs) {
  const T* const x = static_cast<const T*>(args.x);
  T* const out = static_cast<T*>(args.out);
  for (Int64 i = GlobalThread(); i < args.count; i += GlobalThreads()) {
    const Int64 line = i / args.columns;
    const Int64 above = i - line * args.columns - line % args.rows - args.diagonal;
    const bool stays = args.upper != 0 ? above >= 0 : above <= 0;
    out[i] = stays ? x[i] : static_cast<T>(0);
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
