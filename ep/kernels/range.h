// Counting. T0: f32, f64, i32 or i64. Entry: range.
#include "kernels/access.h"
#include "kernels/range_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;

TUNABLEOP_KERNEL(range, RangeArgs) {
  T* const out = static_cast<T*>(args.out);
  for (Int64 i = GlobalThread(); i < args.count; i += GlobalThreads()) {
    if constexpr (kFloating<T>) {
      out[i] = static_cast<T>(args.start) + static_cast<T>(i) * static_cast<T>(args.delta);
    } else {
      // Wraps around where the model asks for it.
      out[i] = static_cast<T>(static_cast<UInt64>(args.whole_start) +
                              static_cast<UInt64>(i) * static_cast<UInt64>(args.whole_delta));
    }
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
