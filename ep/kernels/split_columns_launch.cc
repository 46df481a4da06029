#include "kernels/split_columns_launch.h"

#include <algorithm>

namespace tunableop::device {

std::optional<Prepared<SplitColumnsArgs>> PrepareSplitColumns(const void* x,
                                                              const std::array<void*, 3>& outs,
                                                              int64_t rows,
                                                              const std::array<int64_t, 3>& columns,
                                                              size_t bytes) noexcept {
  constexpr int64_t kNarrow = int64_t{1} << 30;
  const int64_t all = columns[0] + columns[1] + columns[2];
  if (all > kNarrow) return std::nullopt;
  int64_t pack = 16 / static_cast<int64_t>(bytes);
  const bool packs =
      IsAligned(x, 16) &&
      std::all_of(outs.begin(), outs.end(), [](const void* out) { return IsAligned(out, 16); }) &&
      std::all_of(columns.begin(), columns.end(), [&](int64_t n) { return n % pack == 0; });
  if (!packs) pack = 1;
  Prepared<SplitColumnsArgs> prepared{};
  SplitColumnsArgs& args = prepared.args;
  args.x = x;
  args.out0 = outs[0];
  args.out1 = outs[1];
  args.out2 = outs[2];
  args.rows = rows;
  args.columns = static_cast<UInt32>(all / pack);
  args.end0 = static_cast<UInt32>(columns[0] / pack);
  args.end1 = static_cast<UInt32>((columns[0] + columns[1]) / pack);
  args.packed = packs ? 1 : 0;
  args.wide = rows * args.columns > kNarrow ? 1 : 0;
  args.by_columns = MakeDivisor(args.columns);
  prepared.grid = GridFor(rows * args.columns);
  return prepared;
}

}  // namespace tunableop::device
