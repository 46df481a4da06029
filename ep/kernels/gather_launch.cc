#include "kernels/gather_launch.h"

namespace tunableop::device {

Prepared<GatherArgs> PrepareGather(const void* x, DimsView x_dims, size_t axis, const void* indices,
                                   int64_t picked, void* out, size_t bytes) noexcept {
  Prepared<GatherArgs> prepared{};
  GatherArgs& args = prepared.args;
  args.x = x;
  args.indices = indices;
  args.out = out;
  args.outer = ElementsOf(x_dims.first(axis));
  args.axis = x_dims[axis];
  args.picked = picked;
  args.inner = ElementsOf(x_dims.subspan(axis + 1));
  const auto pack = static_cast<int64_t>(16 / bytes);
  if (args.inner % pack == 0 && IsAligned(x, 16) && IsAligned(out, 16)) {
    args.packed = 1;
    args.inner /= pack;
  }
  const int64_t count = args.outer * args.picked * args.inner;
  args.wide = count > int64_t{1} << 30 ? 1 : 0;
  args.by_inner = MakeDivisor(args.inner);
  args.by_picked = MakeDivisor(args.picked);
  prepared.grid = GridFor(count);
  return prepared;
}

std::optional<Prepared<GatherElementsArgs>> PrepareGatherElements(const void* x, DimsView x_dims,
                                                                  size_t axis, const void* indices,
                                                                  DimsView indices_dims,
                                                                  void* out) noexcept {
  if (x_dims.size() != indices_dims.size() || axis >= x_dims.size()) return std::nullopt;
  Prepared<GatherElementsArgs> prepared{};
  GatherElementsArgs& args = prepared.args;
  Merged<1> merged;
  int64_t stride = 1;
  for (size_t d = x_dims.size(); d-- > 0;) {
    if (d == axis) {
      args.axis = x_dims[d];
      args.axis_stride = stride;
    } else if (indices_dims[d] > x_dims[d]) {
      return std::nullopt;
    }
    if (!merged.Add(indices_dims[d], {d == axis ? 0 : stride})) return std::nullopt;
    stride *= x_dims[d];
  }
  const auto shape = merged.Finish();
  if (!shape) return std::nullopt;
  args.x = x;
  args.indices = indices;
  args.out = out;
  args.shape = *shape;
  prepared.grid = GridFor(*shape);
  return prepared;
}

std::optional<Prepared<GatherNdArgs>> PrepareGatherNd(const void* x, DimsView x_dims,
                                                      size_t batch_dims, const void* indices,
                                                      DimsView indices_dims, void* out) noexcept {
  if (indices_dims.empty() || batch_dims >= indices_dims.size()) return std::nullopt;
  const int64_t parts = indices_dims.back();
  const auto left = static_cast<int64_t>(x_dims.size()) - static_cast<int64_t>(batch_dims);
  if (parts < 1 || parts > kMaxRank || parts > left) return std::nullopt;
  for (size_t d = 0; d < batch_dims; ++d) {
    if (x_dims[d] != indices_dims[d]) return std::nullopt;
  }
  Prepared<GatherNdArgs> prepared{};
  GatherNdArgs& args = prepared.args;
  args.x = x;
  args.indices = indices;
  args.out = out;
  args.parts = static_cast<UInt32>(parts);
  args.batches = ElementsOf(x_dims.first(batch_dims));
  args.batch = ElementsOf(x_dims.subspan(batch_dims));
  args.rows = ElementsOf(indices_dims.subspan(batch_dims, indices_dims.size() - batch_dims - 1));
  args.inner = ElementsOf(x_dims.subspan(batch_dims + static_cast<size_t>(parts)));
  int64_t stride = args.inner;
  for (auto p = static_cast<size_t>(parts); p-- > 0;) {
    args.sizes[p] = x_dims[batch_dims + p];
    args.strides[p] = stride;
    stride *= args.sizes[p];
  }
  prepared.grid = GridFor(args.batches * args.rows * args.inner);
  return prepared;
}

}  // namespace tunableop::device
