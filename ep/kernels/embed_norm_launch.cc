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
  const auto rows = RowsOf<3>(operands);
  if (!rows) return std::nullopt;

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
  const int64_t pack = PackOf(columns, bytes,
                              {args.first.table, args.second.table, args.third.table, args.gamma,
                               args.beta, args.out, args.sum});
  args.packed = pack > 1 ? 1 : 0;
  const RowsPlan plan = PlanRows(rows->count, columns, pack);
  args.lanes = plan.lanes;
  prepared.grid = plan.grid;
  return prepared;
}

}  // namespace tunableop::device
