#include "kernels/resize_launch.h"

namespace tunableop::device {

std::optional<Prepared<ResizeArgs>> PrepareResize(const void* x, const ResizeShape& shape,
                                                  void* out) noexcept {
  const size_t all = shape.sizes.size();
  if (shape.outs.size() != all || shape.scales.size() != all) return std::nullopt;
  Prepared<ResizeArgs> prepared{};
  ResizeArgs& args = prepared.args;
  args.x = x;
  args.out = out;
  args.place = shape.place;
  args.round = shape.round;
  args.count = ElementsOf(shape.outs);
  int64_t stride = 1;
  size_t rank = 0;
  for (size_t d = all; d-- > 0;) {
    const float scale = shape.scales[d];
    const auto size = static_cast<float>(shape.sizes[d]);
    const bool merges = rank > 0 && scale == 1.0F && args.scales[rank - 1] == 1.0F;
    if (merges) {
      args.sizes[rank - 1] *= shape.sizes[d];
      args.outs[rank - 1] *= shape.outs[d];
    } else {
      if (rank == kMaxRank) return std::nullopt;
      args.sizes[rank] = shape.sizes[d];
      args.outs[rank] = shape.outs[d];
      args.strides[rank] = stride;
      args.scales[rank] = scale;
      if (shape.place == ResizePlace::kHalfPixelSymmetric) {
        const float adjustment = static_cast<float>(shape.outs[d]) / (scale * size);
        args.offsets[rank] = size / 2 * (1 - adjustment);
      }
      ++rank;
    }
    stride *= shape.sizes[d];
  }
  args.rank = static_cast<UInt32>(rank);
  prepared.grid = GridFor(args.count);
  return prepared;
}

}  // namespace tunableop::device
