#include "kernels/channel_launch.h"

#include <algorithm>

namespace tunableop::device {

std::optional<Prepared<ChannelArgs>> PrepareChannels(const void* x, const ChannelNumbers& numbers,
                                                     int64_t images, int64_t channels,
                                                     int64_t inner, void* out) noexcept {
  constexpr int64_t kNarrow = int64_t{1} << 30;
  const int64_t image = std::max<int64_t>(channels * inner, 1);
  if (image > kNarrow) return std::nullopt;
  Prepared<ChannelArgs> prepared{};
  ChannelArgs& args = prepared.args;
  args.x = x;
  args.out = out;
  args.scale = numbers.scale;
  args.shift = numbers.shift;
  args.mean = numbers.mean;
  args.variance = numbers.variance;
  args.epsilon = numbers.epsilon;
  args.count = images * channels * inner;
  args.slab = std::max<int64_t>(std::min(images, kNarrow / image), 1) * image;
  args.by_inner = MakeDivisor(inner);
  args.by_channels = MakeDivisor(channels);
  prepared.grid =
      GridFor(std::min<int64_t>(args.slab, args.count), (args.count + args.slab - 1) / args.slab);
  return prepared;
}

}  // namespace tunableop::device
