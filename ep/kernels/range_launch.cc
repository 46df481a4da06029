#include "kernels/range_launch.h"

namespace tunableop::device {

Prepared<RangeArgs> PrepareRange(void* out, int64_t count, double start, double delta) noexcept {
  Prepared<RangeArgs> prepared{};
  prepared.args.out = out;
  prepared.args.count = count;
  prepared.args.start = start;
  prepared.args.delta = delta;
  prepared.grid = GridFor(count);
  return prepared;
}

Prepared<RangeArgs> PrepareWholeRange(void* out, int64_t count, int64_t start,
                                      int64_t delta) noexcept {
  Prepared<RangeArgs> prepared{};
  prepared.args.out = out;
  prepared.args.count = count;
  prepared.args.whole_start = start;
  prepared.args.whole_delta = delta;
  prepared.grid = GridFor(count);
  return prepared;
}

}  // namespace tunableop::device
