#include "kernels/bias_act_launch.h"

namespace tunableop::device {

Prepared<BiasActArgs> PrepareBiasAct(const BiasActTensors& tensors, int64_t rows, int64_t columns,
                                     double alpha, size_t bytes) noexcept {
  Prepared<BiasActArgs> prepared{};
  BiasActArgs& args = prepared.args;
  args.x = tensors.x;
  args.bias = tensors.bias;
  args.gate = tensors.gate;
  args.out = tensors.out;
  args.rows = rows;
  args.x_stride = tensors.x_stride;
  args.gate_stride = tensors.gate == nullptr ? 0 : tensors.gate_stride;
  args.alpha = alpha;
  const auto pack = static_cast<int64_t>(16 / bytes);
  const bool packs = columns % pack == 0 && args.x_stride % pack == 0 &&
                     args.gate_stride % pack == 0 && IsAligned(args.x, 16) &&
                     IsAligned(args.bias, 16) && IsAligned(args.gate, 16) &&
                     IsAligned(args.out, 16);  // null is aligned
  args.packed = packs ? 1 : 0;
  args.columns = packs ? columns / pack : columns;
  args.by_columns = MakeDivisor(args.columns);
  args.wide = rows * args.columns > int64_t{1} << 30 ? 1 : 0;
  prepared.grid = GridFor(rows * args.columns);
  return prepared;
}

}  // namespace tunableop::device
