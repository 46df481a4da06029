#include "kernels/pool_launch.h"

namespace tunableop::device {

std::optional<Prepared<PoolArgs>> PreparePool(const void* x, const PoolShape& shape, void* out,
                                              int64_t* places) noexcept {
  static_assert(sizeof(int64_t) == sizeof(Int64));
  constexpr int64_t kNarrow = int64_t{1} << 30;
  Prepared<PoolArgs> prepared{};
  PoolArgs& args = prepared.args;
  args.x = x;
  args.out = out;
  args.places = reinterpret_cast<Int64*>(places);
  args.planes = shape.planes;
  args.plane = ElementsOf(shape.size);
  const int64_t count = ElementsOf(shape.out);
  if (args.plane > kNarrow || count > kNarrow) return std::nullopt;
  args.count = static_cast<UInt32>(count);
  args.out_sizes[0] = MakeDivisor(shape.out[2]);
  args.out_sizes[1] = MakeDivisor(shape.out[1]);
  for (size_t d = 0; d < 3; ++d) {
    const size_t from = 2 - d;
    // The farthest place that is looked at must be one of 32 bits.
    const int64_t reach = (shape.out[from] - 1) * shape.stride[from] +
                          shape.window[from] * shape.dilation[from] + shape.size[from];
    if (reach > kNarrow || shape.before[from] > kNarrow || shape.after[from] > kNarrow) {
      return std::nullopt;
    }
    args.sizes[d] = static_cast<Int32>(shape.size[from]);
    args.windows[d] = static_cast<Int32>(shape.window[from]);
    args.strides[d] = static_cast<Int32>(shape.stride[from]);
    args.dilations[d] = static_cast<Int32>(shape.dilation[from]);
    args.before[d] = static_cast<Int32>(shape.before[from]);
    args.reach[d] = static_cast<Int32>(shape.size[from] + shape.after[from]);
  }
  args.counts_padding = shape.counts_padding ? 1 : 0;
  prepared.grid = GridFor(count, shape.planes);
  return prepared;
}

}  // namespace tunableop::device
