// What ends a layer: bias, activation, gate. T0 is the type of everything. Entries: bias_add,
// bias_relu, bias_gelu, bias_gelu_tanh, bias_quick_gelu (x * sigmoid(alpha * x)), bias_tanh.
#include "kernels/access.h"
#include "kernels/activations.h"
#include "kernels/bias_act_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;
using Math = MathOf<T>;

template <class Op, int kPack, class Index>
TUNABLEOP_DEVICE void RunPacks(const BiasActArgs& args) {
  const Index count = static_cast<Index>(args.rows * args.columns);
  for (Index i = GlobalThread(); i < count; i += GlobalThreads()) {
    const Int64 row = static_cast<Int64>(Quotient(i, args.by_columns, args.columns));
    const Int64 column = (static_cast<Int64>(i) - row * args.columns) * kPack;
    const T* const x = static_cast<const T*>(args.x) + row * args.x_stride + column;
    Pack<T, kPack> pack = LoadPack<T, kPack>(x);
    Math value[kPack];
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) value[e] = Number<T>::Read(pack.at[e]);
    if (args.bias != nullptr) {
      pack = LoadPack<T, kPack>(static_cast<const T*>(args.bias) + column);
      TUNABLEOP_UNROLL
      for (int e = 0; e < kPack; ++e) value[e] += Number<T>::Read(pack.at[e]);
    }
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) value[e] = Op::Of(value[e], args);
    if (args.gate != nullptr) {
      pack = LoadPack<T, kPack>(static_cast<const T*>(args.gate) + row * args.gate_stride + column);
      TUNABLEOP_UNROLL
      for (int e = 0; e < kPack; ++e) value[e] *= Number<T>::Read(pack.at[e]);
    }
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) pack.at[e] = Number<T>::Write(value[e]);
    StorePack(static_cast<T*>(args.out) + static_cast<Int64>(i) * kPack, pack);
  }
}

template <class Op>
TUNABLEOP_DEVICE void Run(const BiasActArgs& args) {
  if (args.packed != 0) {
    if (args.wide != 0) {
      RunPacks<Op, kPackOf<T>, UInt64>(args);
    } else {
      RunPacks<Op, kPackOf<T>, UInt32>(args);
    }
  } else if (args.wide != 0) {
    RunPacks<Op, 1, UInt64>(args);
  } else {
    RunPacks<Op, 1, UInt32>(args);
  }
}

#define TUNABLEOP_BIAS(Name, entry, expression)                                  \
  struct Name {                                                                  \
    TUNABLEOP_MEMBER Math Of(Math x, [[maybe_unused]] const BiasActArgs& args) { \
      return expression;                                                         \
    }                                                                            \
  };                                                                             \
  TUNABLEOP_KERNEL(entry, BiasActArgs) { Run<Name>(args); }

TUNABLEOP_BIAS(Linear, bias_add, x)
TUNABLEOP_BIAS(Relu, bias_relu, x < 0 ? static_cast<Math>(0) : x)
TUNABLEOP_BIAS(Gelu, bias_gelu, GeluByErfAs<T>(x))
TUNABLEOP_BIAS(GeluTanh, bias_gelu_tanh, GeluByTanhAs<T>(x))
TUNABLEOP_BIAS(QuickGelu, bias_quick_gelu, x* LogisticAs<T>(static_cast<Math>(args.alpha) * x))
TUNABLEOP_BIAS(TanhOf, bias_tanh, Tanh(x))
#undef TUNABLEOP_BIAS

}  // namespace tunableop::device::TUNABLEOP_MODULE
