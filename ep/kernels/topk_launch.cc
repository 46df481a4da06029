#include "kernels/topk_launch.h"

namespace tunableop::device {

Prepared<TopKArgs> PrepareTopK(const void* x, DimsView x_dims, size_t axis, int64_t kept,
                               bool smallest, void* values, int64_t* places) noexcept {
  static_assert(sizeof(int64_t) == sizeof(Int64));
  Prepared<TopKArgs> prepared{};
  TopKArgs& args = prepared.args;
  args.x = x;
  args.values = values;
  args.places = reinterpret_cast<Int64*>(places);
  args.axis = x_dims[axis];
  args.inner = ElementsOf(x_dims.subspan(axis + 1));
  args.rows = ElementsOf(x_dims.first(axis)) * args.inner;
  args.kept = kept;
  args.smallest = smallest ? 1 : 0;
  const RowsPlan plan = PlanRows(args.rows, args.axis, 1);
  args.lanes = plan.lanes;
  prepared.grid = plan.grid;
  return prepared;
}

}  // namespace tunableop::device
