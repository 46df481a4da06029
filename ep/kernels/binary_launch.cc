#include "kernels/binary_launch.h"

#include <algorithm>

namespace tunableop::device {

std::optional<Prepared<BinaryArgs>> PrepareBinary(const void* a, DimsView a_dims, const void* b,
                                                  DimsView b_dims, void* out, size_t in_bytes,
                                                  size_t out_bytes) noexcept {
  const std::array<DimsView, 2> operands{a_dims, b_dims};
  const std::optional<Dims> dims = BroadcastDims(operands);
  if (!dims) return std::nullopt;
  std::optional<Merged<2>> merged = MergeBroadcast<2>(dims->view(), operands);
  if (!merged) return std::nullopt;

  Prepared<BinaryArgs> prepared{};
  BinaryArgs& args = prepared.args;
  args.a = a;
  args.b = b;
  args.out = out;
  const auto pack = static_cast<int64_t>(16 / std::max(in_bytes, out_bytes));
  bool packs = merged->rank > 0 && IsAligned(out, static_cast<size_t>(pack) * out_bytes) &&
               (merged->rank == 1 || merged->dims[0] % pack == 0);
  const std::array<const void*, 2> pointers{a, b};
  for (size_t n = 0; n < 2; ++n) {
    const bool same = merged->strides[n][0] == 0;
    if (!same && !IsAligned(pointers[n], static_cast<size_t>(pack) * in_bytes)) packs = false;
  }
  // Where an operand steps by 1 inside, its other strides are multiples of that whole dimension.
  args.packed = packs ? 1 : 0;
  const auto shape = merged->Finish(packs ? pack : 1);
  if (!shape) return std::nullopt;
  args.shape = *shape;
  prepared.grid = GridFor(args.shape, packs ? pack : 1);
  return prepared;
}

}  // namespace tunableop::device
