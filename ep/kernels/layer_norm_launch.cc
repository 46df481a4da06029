#include "kernels/layer_norm_launch.h"

namespace tunableop::device {

std::optional<Prepared<LayerNormArgs>> PrepareLayerNorm(const LayerNormTensors& tensors,
                                                        int64_t columns, double epsilon,
                                                        size_t bytes) noexcept {
  const DimsView skip_rows = tensors.skip == nullptr ? DimsView{} : tensors.skip_rows;
  const std::array<DimsView, 2> operands{tensors.x_rows, skip_rows};
  const std::optional<Dims> dims = BroadcastDims(operands);
  if (!dims) return std::nullopt;
  const auto merged = MergeBroadcast<2>(dims->view(), operands);
  if (!merged) return std::nullopt;
  const auto rows = merged->Finish();
  if (!rows || rows->count > rows->slab) return std::nullopt;

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
  const auto pack = static_cast<int64_t>(16 / bytes);
  bool packs = columns % pack == 0;
  for (const void* at :
       {tensors.x, tensors.skip, tensors.bias, tensors.gamma, tensors.beta,
        static_cast<const void*>(tensors.out), static_cast<const void*>(tensors.sum)}) {
    if (!IsAligned(at, 16)) packs = false;  // null is aligned
  }
  args.packed = packs ? 1 : 0;
  const RowsPlan plan = PlanRows(rows->count, columns, packs ? pack : 1);
  args.lanes = plan.lanes;
  prepared.grid = plan.grid;
  return prepared;
}

}  // namespace tunableop::device
