#include "kernels/fill_launch.h"

#include <algorithm>

namespace tunableop::device {

Prepared<FillArgs> PrepareFill(void* out, int64_t count, uint64_t bits) noexcept {
  Prepared<FillArgs> prepared{};
  prepared.args.out = out;
  prepared.args.count = count;
  prepared.args.bits = bits;
  prepared.grid = GridFor(count);
  return prepared;
}

Prepared<TriluArgs> PrepareTrilu(const void* x, DimsView dims, int64_t diagonal, bool upper,
                                 void* out) noexcept {
  Prepared<TriluArgs> prepared{};
  TriluArgs& args = prepared.args;
  args.x = x;
  args.out = out;
  args.count = ElementsOf(dims);
  args.rows = dims[dims.size() - 2];
  args.columns = dims.back();
  // Beyond the corners nothing changes, and differences stay within int64.
  args.diagonal = std::clamp<int64_t>(diagonal, -args.rows - 1, args.columns + 1);
  args.upper = upper ? 1 : 0;
  prepared.grid = GridFor(args.count);
  return prepared;
}

}  // namespace tunableop::device
