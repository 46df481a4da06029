// Windows over one to three dimensions. T0: f32, f16, bf16, f64, of pool_max u8, too. Entries:
// pool_max; pool_average. Sums are of floats (doubles for f64).
#include "kernels/access.h"
#include "kernels/pool_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;
using Math = MathOf<T>;

// Of one dimension: where a window's elements begin and end, in steps of its dilation.
struct Window {
  Int32 begin;
  Int32 end;
  Int32 counted;  // elements, with those of padding that count
};

TUNABLEOP_DEVICE Int32 StepsUpTo(Int32 begin, Int32 end, Int32 step) {
  return end <= begin ? 0 : (end - begin + step - 1) / step;
}

TUNABLEOP_DEVICE Window WindowAt(const PoolArgs& args, int d, UInt32 place) {
  const Int32 step = args.dilations[d];
  const Int32 begin = static_cast<Int32>(place) * args.strides[d] - args.before[d];
  const Int32 end = begin + args.windows[d] * step;
  Window window;
  window.counted = StepsUpTo(begin, end < args.reach[d] ? end : args.reach[d], step);
  window.begin = begin + (begin < 0 ? StepsUpTo(begin, 0, step) * step : 0);
  window.end = end < args.sizes[d] ? end : args.sizes[d];
  return window;
}

struct Windows {
  Window of[3];
};

TUNABLEOP_DEVICE Windows WindowsAt(const PoolArgs& args, UInt32 i) {
  const UInt32 line = Quotient(i, args.out_sizes[0]);
  const UInt32 above = Quotient(line, args.out_sizes[1]);
  Windows at;
  at.of[0] = WindowAt(args, 0, i - line * args.out_sizes[0].divisor);
  at.of[1] = WindowAt(args, 1, line - above * args.out_sizes[1].divisor);
  at.of[2] = WindowAt(args, 2, above);
  return at;
}

// Calls `see` with each element of the window and where it is in the plane.
template <class See>
TUNABLEOP_DEVICE void GoOver(const PoolArgs& args, const Windows& at, const T* plane, See& see) {
  for (Int32 z = at.of[2].begin; z < at.of[2].end; z += args.dilations[2]) {
    for (Int32 y = at.of[1].begin; y < at.of[1].end; y += args.dilations[1]) {
      const Int64 row = (static_cast<Int64>(z) * args.sizes[1] + y) * args.sizes[0];
      for (Int32 x = at.of[0].begin; x < at.of[0].end; x += args.dilations[0]) {
        see.Element(Number<T>::Read(plane[row + x]), row + x);
      }
    }
  }
}

// What a window of padding alone gives, as ONNX Runtime's CPU provider has it.
TUNABLEOP_DEVICE float LowestOf(types::f32) { return -3.402823466e+38F; }
TUNABLEOP_DEVICE float LowestOf(types::f16) { return -65504.0F; }
TUNABLEOP_DEVICE float LowestOf(types::bf16) { return FloatOf(0xFF7F0000U); }
TUNABLEOP_DEVICE double LowestOf(types::f64) { return -1.7976931348623157e+308; }
TUNABLEOP_DEVICE MathOf<types::u8> LowestOf(types::u8) { return 0; }

struct MostOf {
  Math value;
  Int64 place;
  TUNABLEOP_METHOD void Element(Math x, Int64 at) {
    if (place >= 0 && !(x > value)) return;
    value = x;
    place = at;
  }
};

TUNABLEOP_KERNEL(pool_max, PoolArgs) {
  for (Int64 p = BlockY(); p < args.planes; p += BlocksY()) {
    const T* const plane = static_cast<const T*>(args.x) + p * args.plane;
    const Int64 first = p * args.count;
    for (UInt32 i = GlobalThread(); i < args.count; i += GlobalThreads()) {
      MostOf most;
      most.value = LowestOf(T{});
      most.place = -1;
      GoOver(args, WindowsAt(args, i), plane, most);
      static_cast<T*>(args.out)[first + i] = Number<T>::Write(most.value);
      // Of padding alone it is the place before the plane, as ONNX Runtime's CPU provider has it.
      if (args.places != nullptr) args.places[first + i] = p * args.plane + most.place;
    }
  }
}

#if TUNABLEOP_IS_FLOATING(TUNABLEOP_T0)
struct SumOf {
  Math value;
  TUNABLEOP_METHOD void Element(Math x, Int64) { value += x; }
};

TUNABLEOP_DEVICE Int64 CountedBy(const PoolArgs& args, const Windows& at) {
  Int64 count = 1;
  TUNABLEOP_UNROLL
  for (int d = 0; d < 3; ++d) {
    count *= args.counts_padding != 0 ? at.of[d].counted
                                      : StepsUpTo(at.of[d].begin, at.of[d].end, args.dilations[d]);
  }
  return count;
}

TUNABLEOP_KERNEL(pool_average, PoolArgs) {
  for (Int64 p = BlockY(); p < args.planes; p += BlocksY()) {
    const T* const plane = static_cast<const T*>(args.x) + p * args.plane;
    for (UInt32 i = GlobalThread(); i < args.count; i += GlobalThreads()) {
      const Windows at = WindowsAt(args, i);
      SumOf sum;
      sum.value = 0;
      GoOver(args, at, plane, sum);
      const Int64 count = CountedBy(args, at);
      static_cast<T*>(args.out)[p * args.count + i] =
          Number<T>::Write(count > 0 ? sum.value / static_cast<Math>(count) : static_cast<Math>(0));
    }
  }
}
#endif

}  // namespace tunableop::device::TUNABLEOP_MODULE
