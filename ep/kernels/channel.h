// Numbers of each channel applied to its elements. T0: of x; T1: of what channels have. Entry:
// channel_apply. Calculated with as floats (doubles for f64).
#include "kernels/access.h"
#include "kernels/channel_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;
using Own = types::TUNABLEOP_T1;
using Math = MathOf<T>;

TUNABLEOP_DEVICE Math OfChannel(const void* numbers, UInt32 channel) {
  return static_cast<Math>(Number<Own>::Read(static_cast<const Own*>(numbers)[channel]));
}

TUNABLEOP_KERNEL(channel_apply, ChannelArgs) {
  const Int64 slabs = args.count > 0 ? (args.count + args.slab - 1) / args.slab : 0;
  for (Int64 slab = BlockY(); slab < slabs; slab += BlocksY()) {
    const T* const x = static_cast<const T*>(args.x) + slab * args.slab;
    T* const out = static_cast<T*>(args.out) + slab * args.slab;
    const Int64 left = args.count - slab * args.slab;
    const UInt32 count = static_cast<UInt32>(left < args.slab ? left : args.slab);
    for (UInt32 i = GlobalThread(); i < count; i += GlobalThreads()) {
      const UInt32 plane = Quotient(i, args.by_inner);
      const UInt32 channel = plane - Quotient(plane, args.by_channels) * args.by_channels.divisor;
      Math value = Number<T>::Read(x[i]);
      if (args.mean != nullptr) value -= OfChannel(args.mean, channel);
      if (args.variance != nullptr) {
        value /= Sqrt(OfChannel(args.variance, channel) + static_cast<Math>(args.epsilon));
      }
      value = value * OfChannel(args.scale, channel) + OfChannel(args.shift, channel);
      out[i] = Number<T>::Write(value);
    }
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
