#include "kernels/softmax_launch.h"

#include <algorithm>

namespace tunableop::device {
namespace {

// Rows of the mask that belong to those of x, and whether one element is for a whole row.
struct MaskRows {
  Strided<1> rows;
  bool whole;
};

std::optional<MaskRows> MaskRowsOf(DimsView x, DimsView mask) noexcept {
  const std::optional<Merged<1>> all = MergeBroadcast<1>(x, {mask});
  if (!all) return std::nullopt;
  const int64_t columns = x.empty() ? 1 : x.back();
  const bool whole = mask.empty() || (mask.back() == 1 && columns != 1);
  const int64_t step = whole ? 1 : columns;  // elements of a row of the mask
  Merged<1> merged;
  int64_t elements = step;
  for (size_t d = 1; d < x.size(); ++d) {
    const int64_t dim = x[x.size() - 1 - d];
    const int64_t own = d < mask.size() ? mask[mask.size() - 1 - d] : 1;
    if (!merged.Add(dim, {own == 1 ? 0 : elements})) return std::nullopt;
    elements *= own;
  }
  const auto rows = merged.Finish();
  if (!rows || rows->count > rows->slab) return std::nullopt;
  return MaskRows{*rows, whole};
}

}  // namespace

std::optional<Prepared<SoftmaxArgs>> PrepareSoftmax(const SoftmaxTensors& tensors,
                                                    const SoftmaxOptions& options, size_t bytes,
                                                    size_t mask_bytes) noexcept {
  const DimsView x = tensors.x_dims;
  const auto rows = MaskRowsOf(x, tensors.mask == nullptr ? DimsView{} : tensors.mask_dims);
  if (!rows) return std::nullopt;

  Prepared<SoftmaxArgs> prepared{};
  SoftmaxArgs& args = prepared.args;
  args.x = tensors.x;
  args.mask = tensors.mask;
  args.out = tensors.out;
  args.columns = x.empty() ? 1 : x.back();
  args.scale = options.scale;
  args.hidden = options.hidden;
  args.inverted = options.inverted ? 1 : 0;
  args.log = options.log ? 1 : 0;
  args.causal = options.causal ? 1 : 0;
  args.past = options.past;
  args.queries = MakeDivisor(x.size() < 2 ? 1 : x[x.size() - 2]);
  args.mask_step = rows->whole ? 0 : 1;
  args.rows = rows->rows;
  const size_t pack = 16 / std::max(bytes, mask_bytes);
  const bool packs = args.columns % static_cast<int64_t>(pack) == 0 &&
                     IsAligned(tensors.x, pack * bytes) && IsAligned(tensors.out, pack * bytes) &&
                     (rows->whole || IsAligned(tensors.mask, pack * mask_bytes));
  args.packed = packs ? 1 : 0;
  const RowsPlan plan =
      PlanRows(args.rows.count, args.columns, packs ? static_cast<int64_t>(pack) : 1);
  args.lanes = plan.lanes;
  prepared.grid = plan.grid;
  return prepared;
}

Prepared<SoftmaxInnerArgs> PrepareSoftmaxInner(const void* x, void* out, int64_t outer,
                                               int64_t columns, int64_t inner, bool log) noexcept {
  return {{x, out, outer, columns, inner, log ? 1U : 0U}, GridFor(outer * inner)};
}

}  // namespace tunableop::device
