#include "kernels/scatter_launch.h"

namespace tunableop::device {

std::optional<Prepared<ScatterElementsArgs>> PrepareScatterElements(const void* indices,
                                                                    DimsView indices_dims,
                                                                    size_t axis,
                                                                    const void* updates, void* out,
                                                                    DimsView out_dims) noexcept {
  if (out_dims.size() != indices_dims.size() || axis >= out_dims.size()) return std::nullopt;
  Prepared<ScatterElementsArgs> prepared{};
  ScatterElementsArgs& args = prepared.args;
  Merged<1> merged;
  int64_t stride = 1;
  for (size_t d = out_dims.size(); d-- > 0;) {
    if (d == axis) {
      args.axis = out_dims[d];
      args.axis_stride = stride;
    } else if (indices_dims[d] > out_dims[d]) {
      return std::nullopt;
    }
    if (!merged.Add(indices_dims[d], {d == axis ? 0 : stride})) return std::nullopt;
    stride *= out_dims[d];
  }
  const auto shape = merged.Finish();
  if (!shape) return std::nullopt;
  args.indices = indices;
  args.updates = updates;
  args.out = out;
  args.shape = *shape;
  prepared.grid = GridFor(*shape);
  return prepared;
}

std::optional<Prepared<ScatterNdArgs>> PrepareScatterNd(const void* indices, DimsView indices_dims,
                                                        const void* updates, void* out,
                                                        DimsView out_dims) noexcept {
  if (indices_dims.empty()) return std::nullopt;
  const int64_t parts = indices_dims.back();
  if (parts < 0 || parts > kMaxRank || parts > static_cast<int64_t>(out_dims.size())) {
    return std::nullopt;
  }
  Prepared<ScatterNdArgs> prepared{};
  ScatterNdArgs& args = prepared.args;
  args.indices = indices;
  args.updates = updates;
  args.out = out;
  args.parts = static_cast<UInt32>(parts);
  args.rows = ElementsOf(indices_dims.first(indices_dims.size() - 1));
  args.inner = ElementsOf(out_dims.subspan(static_cast<size_t>(parts)));
  int64_t stride = args.inner;
  for (auto p = static_cast<size_t>(parts); p-- > 0;) {
    args.sizes[p] = out_dims[p];
    args.strides[p] = stride;
    stride *= args.sizes[p];
  }
  prepared.grid = GridFor(args.rows * args.inner);
  return prepared;
}

Prepared<OneHotArgs> PrepareOneHot(const void* indices, int64_t outer, int64_t depth, int64_t inner,
                                   const void* values, void* out) noexcept {
  Prepared<OneHotArgs> prepared{};
  prepared.args = {indices, values, out, depth, inner, outer * depth * inner};
  prepared.grid = GridFor(prepared.args.count);
  return prepared;
}

}  // namespace tunableop::device
