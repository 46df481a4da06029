#include "kernels/cast_launch.h"

#include <algorithm>

namespace tunableop::device {

Prepared<CastArgs> PrepareCast(const void* x, void* out, int64_t count, size_t in_bytes,
                               size_t out_bytes) noexcept {
  Prepared<CastArgs> prepared{};
  const size_t pack = 16 / std::max(in_bytes, out_bytes);
  const bool packed = IsAligned(x, pack * in_bytes) && IsAligned(out, pack * out_bytes);
  prepared.args.x = x;
  prepared.args.out = out;
  prepared.args.count = count;
  prepared.args.packed = packed ? 1 : 0;
  prepared.grid = GridFor(packed ? count / static_cast<int64_t>(pack) + 1 : count);
  return prepared;
}

Prepared<CastScaledArgs> PrepareCastScaled(const void* x, void* out, int64_t count, size_t in_bytes,
                                           size_t out_bytes, const CastScaling& scaling) noexcept {
  const Prepared<CastArgs> plain = PrepareCast(x, out, count, in_bytes, out_bytes);
  return {{plain.args, scaling.sign, scaling.shift, scaling.scale}, plain.grid};
}

}  // namespace tunableop::device
