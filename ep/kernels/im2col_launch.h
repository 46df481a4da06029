// How the kernel of im2col.h is called.
#pragma once

#include <array>

#include "kernels/im2col_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

// Of a convolution over three dimensions: deep, down, along. Over two, it is deep and along: what
// is divided into bands is the first.
struct ConvShape {
  int64_t images = 1;
  int64_t channels = 1;
  std::array<int64_t, 3> size{1, 1, 1};  // of an image
  std::array<int64_t, 3> filter{1, 1, 1};
  std::array<int64_t, 3> stride{1, 1, 1};
  std::array<int64_t, 3> dilation{1, 1, 1};
  std::array<int64_t, 3> before{0, 0, 0};  // zeros in front of each dimension
  std::array<int64_t, 3> after{0, 0, 0};   // and behind it

  // Layers of the result that are laid out, from `first` on; 0: all. What large images are divided
  // into.
  int64_t band = 0;
  int64_t first = 0;

  // Of the result; zero or less: the filter does not fit anywhere.
  int64_t OutSize(size_t dimension) const noexcept;
  int64_t layer_places() const noexcept { return OutSize(1) * OutSize(2); }
  int64_t places() const noexcept { return OutSize(0) * layer_places(); }
  int64_t band_places() const noexcept { return (band > 0 ? band : OutSize(0)) * layer_places(); }
  int64_t rows() const noexcept { return channels * ElementsOf(filter); }
  // The matrix is the image as it is: each of its numbers is used once, where it lies.
  bool is_plain() const noexcept;
};

// Nothing: 2^30 elements and more in an image or its matrix, or steps as large.
std::optional<Prepared<Im2ColArgs>> PrepareIm2Col(const void* x, const ConvShape& shape,
                                                  void* out) noexcept;

}  // namespace tunableop::device
