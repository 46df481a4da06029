#include "kernels/layer_norm_launch.h"

namespace tunableop::device {

std::optional<Prepared<LayerNormArgs>> PrepareLayerNorm(const LayerNormTensors& tensors,
                                                        int64_t columns, double epsilon,
                                                        size_t bytes) noexcept {
  const DimsView skip_rows = tensors.skip == nullptr ? DimsView{} : tensors.skip_rows;
  const std::array<DimsView, 2> operands{tensors.x_rows, skip_rows};
  const auto rows = RowsOf<2>(operands);
  if (!rows) return std::nullopt;

  Prepared<LayerNormArgs> prepared{};
  LayerNormArgs& args = prepared.args;
  args.x = tensors.x;
  args.skip = tensors.skip;
  args.bias = tensors.bias;
  args.gamma = tensors.gamma;
  args.beta = tensors.beta;
  args.out = tensors.out;
  args.sum = tensors.sum;
  args.mean = tensors.mean;
  args.inverse = tensors.inverse;
  args.columns = columns;
  args.epsilon = epsilon;
  args.rows = *rows;
  const int64_t pack = PackOf(columns, bytes,
                              {tensors.x, tensors.skip, tensors.bias, tensors.gamma, tensors.beta,
                               tensors.out, tensors.sum});
  args.packed = pack > 1 ? 1 : 0;
  const RowsPlan plan = PlanRows(rows->count, columns, pack);
  args.lanes = plan.lanes;
  prepared.grid = plan.grid;
  return prepared;
}

}  // namespace tunableop::device
