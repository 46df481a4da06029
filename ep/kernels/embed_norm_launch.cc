#include "kernels/embed_norm_launch.h"

namespace tunableop::device {
namespace {

EmbedPart PartOf(const EmbedNormTensors::Part& part) noexcept {
  return {part.table, part.places, part.rows, part.narrow ? 1U : 0U};
}

}  // namespace

std::optional<Prepared<EmbedNormArgs>> PrepareEmbedNorm(const EmbedNormTensors& tensors,
                                                        int64_t columns, double epsilon,
                                                        size_t bytes) noexcept {
  const std::array<DimsView, 3> operands{tensors.parts[0].dims, tensors.parts[1].dims,
                                         tensors.parts[2].dims};
  const std::optional<Dims> dims = BroadcastDims(operands);
  if (!dims) return std::nullopt;
  const auto merged = MergeBroadcast<3>(dims->view(), operands);
  if (!merged) return std::nullopt;
  const auto rows = merged->Finish();
  if (!rows || rows->count > rows->slab) return std::nullopt;

  Prepared<EmbedNormArgs> prepared{};
  EmbedNormArgs& args = prepared.args;
  args.first = PartOf(tensors.parts[0]);
  args.second = PartOf(tensors.parts[1]);
  args.third = PartOf(tensors.parts[2]);
  args.gamma = tensors.gamma;
  args.beta = tensors.beta;
  args.out = tensors.out;
  args.sum = tensors.sum;
  args.columns = columns;
  args.epsilon = epsilon;
  args.rows = *rows;
  const auto pack = static_cast<int64_t>(16 / bytes);
  bool packs = columns % pack == 0;
  for (const void* at :
       {args.first.table, args.second.table, args.third.table, args.gamma, args.beta,
        static_cast<const void*>(args.out), static_cast<const void*>(args.sum)}) {
    if (!IsAligned(at, 16)) packs = false;  // null is aligned
  }
  args.packed = packs ? 1 : 0;
  const RowsPlan plan = PlanRows(rows->count, columns, packs ? pack : 1);
  args.lanes = plan.lanes;
  prepared.grid = plan.grid;
  return prepared;
}

}  // namespace tunableop::device
