#include "kernels/where_launch.h"

namespace tunableop::device {

std::optional<Prepared<WhereArgs>> PrepareWhere(const WhereOperand& condition,
                                                const WhereOperand& a, const WhereOperand& b,
                                                void* out, size_t bytes) noexcept {
  const std::array<DimsView, 3> operands{condition.dims, a.dims, b.dims};
  const std::optional<Dims> dims = BroadcastDims(operands);
  if (!dims) return std::nullopt;
  const std::optional<Merged<3>> merged = MergeBroadcast<3>(dims->view(), operands);
  if (!merged) return std::nullopt;

  Prepared<WhereArgs> prepared{};
  WhereArgs& args = prepared.args;
  args.condition = condition.data;
  args.a = a.data;
  args.b = b.data;
  args.out = out;
  const auto pack = static_cast<int64_t>(16 / bytes);
  bool packs =
      merged->rank > 0 && IsAligned(out, 16) && (merged->rank == 1 || merged->dims[0] % pack == 0);
  const std::array<const void*, 3> pointers{condition.data, a.data, b.data};
  for (size_t n = 0; n < 3; ++n) {
    const size_t width = n == 0 ? static_cast<size_t>(pack) : 16;
    if (merged->strides[n][0] != 0 && !IsAligned(pointers[n], width)) packs = false;
  }
  args.packed = packs ? 1 : 0;
  const auto shape = merged->Finish(packs ? pack : 1);
  if (!shape) return std::nullopt;
  args.shape = *shape;
  prepared.grid = GridFor(args.shape, packs ? pack : 1);
  return prepared;
}

}  // namespace tunableop::device
