#include "kernels/reduce_launch.h"

#include <algorithm>

#include "kernels/rows.h"

namespace tunableop::device {

std::optional<Prepared<ReduceArgs>> PrepareReduce(const void* x, DimsView x_dims,
                                                  std::span<const bool> reduced, void* out,
                                                  size_t bytes) noexcept {
  if (x_dims.size() != reduced.size()) return std::nullopt;
  Merged<1> kept;
  Merged<1> over;
  int64_t stride = 1;
  for (size_t d = x_dims.size(); d-- > 0;) {
    if (!(reduced[d] ? over : kept).Add(x_dims[d], {stride})) return std::nullopt;
    stride *= x_dims[d];
  }
  const auto kept_shape = kept.Finish();
  const auto over_shape = over.Finish();
  if (!kept_shape || !over_shape || kept_shape->count > kept_shape->slab) return std::nullopt;

  Prepared<ReduceArgs> prepared{};
  ReduceArgs& args = prepared.args;
  args.x = x;
  args.out = out;
  args.kept = *kept_shape;
  args.reduced = *over_shape;
  const auto pack = static_cast<int64_t>(16 / bytes);
  const bool row = over.rank == 1 && over.strides[0][0] == 1;
  const bool packs = row && over.dims[0] % pack == 0 && IsAligned(x, 16);
  args.packed = packs ? 1 : 0;
  if (kept.rank > 0 && kept.strides[0][0] == 1 && args.kept.count >= 32) {
    // Neighbouring results read neighbouring elements: a thread each.
    args.lanes = 1;
    prepared.grid = GridFor(args.kept.count);
  } else {
    const RowsPlan plan = PlanRows(args.kept.count, args.reduced.count, packs ? pack : 1);
    args.lanes = plan.lanes;
    prepared.grid = plan.grid;
  }
  return prepared;
}

Prepared<CumSumArgs> PrepareCumSum(const void* x, DimsView x_dims, size_t axis, bool exclusive,
                                   bool reverse, void* out) noexcept {
  Prepared<CumSumArgs> prepared{};
  CumSumArgs& args = prepared.args;
  args.x = x;
  args.out = out;
  args.outer = ElementsOf(x_dims.first(axis));
  args.axis = x_dims[axis];
  args.inner = ElementsOf(x_dims.subspan(axis + 1));
  args.exclusive = exclusive ? 1 : 0;
  args.reverse = reverse ? 1 : 0;
  prepared.grid = GridFor(args.outer * args.inner, 1, 128);
  return prepared;
}

Prepared<ArgArgs> PrepareArg(const void* x, DimsView x_dims, size_t axis, bool last,
                             int64_t* out) noexcept {
  static_assert(sizeof(int64_t) == sizeof(Int64));
  Prepared<ArgArgs> prepared{};
  ArgArgs& args = prepared.args;
  args.x = x;
  args.out = reinterpret_cast<Int64*>(out);
  args.outer = ElementsOf(x_dims.first(axis));
  args.axis = x_dims[axis];
  args.inner = ElementsOf(x_dims.subspan(axis + 1));
  args.last = last ? 1 : 0;
  prepared.grid = GridFor(args.outer * args.inner, 1, 128);
  return prepared;
}

}  // namespace tunableop::device
