#include "kernels/im2col_launch.h"

namespace tunableop::device {

int64_t ConvShape::OutSize(size_t dimension) const noexcept {
  const int64_t reach = dilation[dimension] * (filter[dimension] - 1) + 1;
  const int64_t room = size[dimension] + before[dimension] + after[dimension] - reach;
  return room < 0 ? 0 : room / stride[dimension] + 1;
}

bool ConvShape::is_plain() const noexcept {
  for (size_t d = 0; d < size.size(); ++d) {
    if (filter[d] != 1 || stride[d] != 1 || before[d] != 0 || after[d] != 0) return false;
  }
  return true;
}

std::optional<Prepared<Im2ColArgs>> PrepareIm2Col(const void* x, const ConvShape& shape,
                                                  void* out) noexcept {
  constexpr int64_t kNarrow = int64_t{1} << 30;
  Prepared<Im2ColArgs> prepared{};
  Im2ColArgs& args = prepared.args;
  args.x = x;
  args.out = out;
  args.images = shape.images;
  args.image = shape.channels * ElementsOf(shape.size);
  args.matrix = shape.rows() * shape.band_places();
  if (args.image > kNarrow || args.matrix > kNarrow) return std::nullopt;
  for (size_t d = 0; d < shape.size.size(); ++d) {
    // The farthest place that is looked at must be one of 32 bits.
    const int64_t reach = shape.size[d] + shape.before[d] + shape.after[d];
    if (reach > kNarrow || shape.stride[d] > kNarrow || shape.dilation[d] > kNarrow) {
      return std::nullopt;
    }
    args.size[d] = static_cast<Int32>(shape.size[d]);
    args.stride[d] = static_cast<Int32>(shape.stride[d]);
    args.dilation[d] = static_cast<Int32>(shape.dilation[d]);
    args.pad[d] = static_cast<Int32>(shape.before[d]);
    args.by_out[d] = MakeDivisor(d == 0 && shape.band > 0 ? shape.band : shape.OutSize(d));
    args.by_filter[d] = MakeDivisor(shape.filter[d]);
  }
  args.pad[0] -= static_cast<Int32>(shape.first * shape.stride[0]);
  prepared.grid = GridFor(args.matrix, shape.images);
  return prepared;
}

}  // namespace tunableop::device
