// How the kernels of copy.h are called. `bytes` is of one element everywhere; nothing is returned
// where more than kMaxRank dimensions are left that cannot be merged, or shapes do not fit.
#pragma once

#include "kernels/copy_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

// From x to out over `dims`, each with strides in elements; those of x may be negative, and x is
// where the index is 0 everywhere.
std::optional<Prepared<CopyArgs>> PrepareCopy(const void* x, DimsView x_strides, void* out,
                                              DimsView out_strides, DimsView dims,
                                              size_t bytes) noexcept;

// x becomes a part of out, along `axis` (not negative) from `offset` on.
std::optional<Prepared<CopyArgs>> PrepareConcatPart(const void* x, DimsView x_dims, void* out,
                                                    DimsView out_dims, size_t axis, int64_t offset,
                                                    size_t bytes) noexcept;

// Every dimension from `starts` in steps of `steps`, which may be negative: out[i] = x[start + i *
// step]. Both have an entry for each dimension. Also what a split gives.
std::optional<Prepared<CopyArgs>> PrepareSlice(const void* x, DimsView x_dims, DimsView starts,
                                               DimsView steps, void* out, DimsView out_dims,
                                               size_t bytes) noexcept;

std::optional<Prepared<CopyArgs>> PrepareExpand(const void* x, DimsView x_dims, void* out,
                                                DimsView out_dims, size_t bytes) noexcept;

// `repeats` has an entry for each dimension.
std::optional<Prepared<CopyArgs>> PrepareTile(const void* x, DimsView x_dims, DimsView repeats,
                                              void* out, size_t bytes) noexcept;

// `before` is what is added in front of each dimension (less than zero: left out).
std::optional<Prepared<PadArgs>> PreparePad(const void* x, DimsView x_dims, DimsView before,
                                            PadMode mode, uint64_t value_bits, void* out,
                                            DimsView out_dims, size_t bytes) noexcept;

// One of two kernels: copy_tiled, or copy.
struct TransposeLaunch {
  bool tiled;
  TiledArgs tiled_args;
  CopyArgs copy_args;
  Grid grid;

  const void* args() const noexcept {
    return tiled ? static_cast<const void*>(&tiled_args) : static_cast<const void*>(&copy_args);
  }
};

// out's dimension i is x's dimension permutation[i].
std::optional<TransposeLaunch> PrepareTranspose(const void* x, DimsView x_dims,
                                                DimsView permutation, void* out,
                                                size_t bytes) noexcept;

}  // namespace tunableop::device
