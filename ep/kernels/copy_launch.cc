#include "kernels/copy_launch.h"

#include <algorithm>

namespace tunableop::device {
namespace {

// Of a contiguous tensor. Precondition: at most Dims::kMost dimensions.
Dims StridesOf(DimsView dims) noexcept {
  Dims strides(dims);
  int64_t stride = 1;
  for (int d = strides.rank() - 1; d >= 0; --d) {
    const int64_t dim = strides[d];
    strides[d] = stride;
    stride *= dim;
  }
  return strides;
}

const void* Advance(const void* at, int64_t elements, size_t bytes) noexcept {
  return static_cast<const std::byte*>(at) + elements * static_cast<int64_t>(bytes);
}

std::optional<Merged<2>> MergeCopy(DimsView x_strides, DimsView out_strides,
                                   DimsView dims) noexcept {
  Merged<2> merged;
  for (size_t d = dims.size(); d-- > 0;) {
    if (!merged.Add(dims[d], {x_strides[d], out_strides[d]})) return std::nullopt;
  }
  return merged;
}

std::optional<Prepared<CopyArgs>> Finish(const Merged<2>& merged, const void* x, void* out,
                                         size_t bytes) noexcept {
  Prepared<CopyArgs> prepared{};
  prepared.args.x = x;
  prepared.args.out = out;
  const auto pack = static_cast<int64_t>(16 / bytes);
  bool packs = merged.rank > 0 && merged.strides[1][0] == 1 &&
               (merged.strides[0][0] == 1 || merged.strides[0][0] == 0) && IsAligned(out, 16) &&
               (merged.strides[0][0] == 0 || IsAligned(x, 16)) &&
               (merged.rank == 1 || merged.dims[0] % pack == 0);
  for (size_t d = 1; d < static_cast<size_t>(merged.rank); ++d) {
    if (merged.strides[1][d] % pack != 0) packs = false;
    if (merged.strides[0][0] == 1 && merged.strides[0][d] % pack != 0) packs = false;
  }
  prepared.args.packed = packs ? 1 : 0;
  const auto shape = merged.Finish(packs ? pack : 1);
  if (!shape) return std::nullopt;
  prepared.args.shape = *shape;
  prepared.grid = GridFor(*shape, packs ? pack : 1);
  return prepared;
}

}  // namespace

std::optional<Prepared<CopyArgs>> PrepareCopy(const void* x, DimsView x_strides, void* out,
                                              DimsView out_strides, DimsView dims,
                                              size_t bytes) noexcept {
  const auto merged = MergeCopy(x_strides, out_strides, dims);
  if (!merged) return std::nullopt;
  return Finish(*merged, x, out, bytes);
}

std::optional<Prepared<CopyArgs>> PrepareConcatPart(const void* x, DimsView x_dims, void* out,
                                                    DimsView out_dims, size_t axis, int64_t offset,
                                                    size_t bytes) noexcept {
  if (x_dims.size() != out_dims.size() || axis >= x_dims.size()) return std::nullopt;
  const Dims out_strides = StridesOf(out_dims);
  const int64_t skipped = offset * out_strides[static_cast<int>(axis)];
  void* const begin = static_cast<std::byte*>(out) + skipped * static_cast<int64_t>(bytes);
  return PrepareCopy(x, StridesOf(x_dims).view(), begin, out_strides.view(), x_dims, bytes);
}

std::optional<Prepared<CopyArgs>> PrepareSlice(const void* x, DimsView x_dims, DimsView starts,
                                               DimsView steps, void* out, DimsView out_dims,
                                               size_t bytes) noexcept {
  if (x_dims.size() != out_dims.size() || x_dims.size() > Dims::kMost) return std::nullopt;
  Dims strides = StridesOf(x_dims);
  int64_t begin = 0;
  for (size_t d = 0; d < x_dims.size(); ++d) {
    int64_t& stride = strides[static_cast<int>(d)];
    begin += starts[d] * stride;
    stride *= steps[d];
  }
  return PrepareCopy(Advance(x, begin, bytes), strides.view(), out, StridesOf(out_dims).view(),
                     out_dims, bytes);
}

std::optional<Prepared<CopyArgs>> PrepareExpand(const void* x, DimsView x_dims, void* out,
                                                DimsView out_dims, size_t bytes) noexcept {
  const auto merged = MergeBroadcast<2>(out_dims, {x_dims, out_dims});
  if (!merged) return std::nullopt;
  return Finish(*merged, x, out, bytes);
}

std::optional<Prepared<CopyArgs>> PrepareTile(const void* x, DimsView x_dims, DimsView repeats,
                                              void* out, size_t bytes) noexcept {
  if (x_dims.size() != repeats.size()) return std::nullopt;
  Merged<2> merged;
  int64_t x_stride = 1;
  int64_t out_stride = 1;
  for (size_t d = x_dims.size(); d-- > 0;) {
    if (!merged.Add(x_dims[d], {x_stride, out_stride})) return std::nullopt;
    x_stride *= x_dims[d];
    out_stride *= x_dims[d];
    if (!merged.Add(repeats[d], {0, out_stride})) return std::nullopt;
    out_stride *= repeats[d];
  }
  return Finish(merged, x, out, bytes);
}

std::optional<Prepared<PadArgs>> PreparePad(const void* x, DimsView x_dims, DimsView before,
                                            PadMode mode, uint64_t value_bits, void* out,
                                            DimsView out_dims, size_t bytes) noexcept {
  const size_t rank = x_dims.size();
  if (rank != before.size() || rank != out_dims.size() || rank > kMaxRank) return std::nullopt;
  Prepared<PadArgs> prepared{};
  PadArgs& args = prepared.args;
  args.out = out;
  args.mode = mode;
  args.value = value_bits;
  args.rank = static_cast<UInt32>(rank);
  args.count = ElementsOf(out_dims);
  int64_t stride = 1;
  int64_t begin = 0;
  for (size_t d = 0; d < rank; ++d) {
    const size_t from = rank - 1 - d;
    // What is left out is no part of what is repeated or reflected.
    const int64_t skipped = std::max<int64_t>(-before[from], 0);
    args.before[d] = std::max<int64_t>(before[from], 0);
    args.sizes[d] = std::min<int64_t>(x_dims[from] - skipped, out_dims[from] - args.before[d]);
    args.dims[d] = out_dims[from];
    args.strides[d] = stride;
    begin += skipped * stride;
    stride *= x_dims[from];
  }
  args.x = Advance(x, begin, bytes);
  prepared.grid = GridFor(args.count);
  return prepared;
}

}  // namespace tunableop::device
