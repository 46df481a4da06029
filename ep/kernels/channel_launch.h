// How the kernel of channel.h is called.
#pragma once

#include "kernels/channel_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

struct ChannelNumbers {
  const void* scale = nullptr;
  const void* shift = nullptr;
  const void* mean = nullptr;      // null: 0
  const void* variance = nullptr;  // null: none
  double epsilon = 0;
};

// x and out: [images, channels, inner], may be the same memory. Nothing: 2^30 elements and more in
// an image.
std::optional<Prepared<ChannelArgs>> PrepareChannels(const void* x, const ChannelNumbers& numbers,
                                                     int64_t images, int64_t channels,
                                                     int64_t inner, void* out) noexcept;

}  // namespace tunableop::device
