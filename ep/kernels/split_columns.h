// Columns of one matrix to three tensors. T0: w2, w4 or w8. Entry: split_columns.
#include "kernels/access.h"
#include "kernels/split_columns_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;

template <int kPack, class Index>
TUNABLEOP_DEVICE void RunPacks(const SplitColumnsArgs& args) {
  const T* const x = static_cast<const T*>(args.x);
  const Index count = static_cast<Index>(args.rows * args.columns);
  for (Index i = GlobalThread(); i < count; i += GlobalThreads()) {
    const Int64 row = static_cast<Int64>(Quotient(i, args.by_columns, args.columns));
    const UInt32 column = static_cast<UInt32>(static_cast<Int64>(i) - row * args.columns);
    const Pack<T, kPack> pack = LoadPack<T, kPack>(x + static_cast<Int64>(i) * kPack);
    T* out = static_cast<T*>(args.out2);
    UInt32 first = args.end1;
    UInt32 end = args.columns;
    if (column < args.end0) {
      out = static_cast<T*>(args.out0);
      first = 0;
      end = args.end0;
    } else if (column < args.end1) {
      out = static_cast<T*>(args.out1);
      first = args.end0;
      end = args.end1;
    }
    if (out == nullptr) continue;
    StorePack(out + (row * (end - first) + (column - first)) * kPack, pack);
  }
}

TUNABLEOP_KERNEL(split_columns, SplitColumnsArgs) {
  if (args.packed != 0) {
    if (args.wide != 0) {
      RunPacks<kPackOf<T>, UInt64>(args);
    } else {
      RunPacks<kPackOf<T>, UInt32>(args);
    }
  } else if (args.wide != 0) {
    RunPacks<1, UInt64>(args);
  } else {
    RunPacks<1, UInt32>(args);
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
