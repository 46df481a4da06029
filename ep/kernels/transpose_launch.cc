#include <algorithm>

#include "kernels/copy_launch.h"

namespace tunableop::device {
namespace {

// The dimensions of the output, as the tiles see them.
struct Matrices {
  int row = -1;  // where x is not contiguous and the output is
  int column = -1;
  Merged<2> others;
};

// Innermost first, as in `merged`. Nothing: the innermost dimension stays where it is.
std::optional<Matrices> FindMatrices(const Merged<2>& merged) noexcept {
  Matrices found;
  for (int d = 0; d < merged.rank; ++d) {
    const auto at = static_cast<size_t>(d);
    if (merged.strides[1][at] == 1) found.row = d;
    if (merged.strides[0][at] == 1) found.column = d;
  }
  if (found.row < 0 || found.column < 0 || found.row == found.column) return std::nullopt;
  for (int d = 0; d < merged.rank; ++d) {
    const auto at = static_cast<size_t>(d);
    if (d == found.row || d == found.column) continue;
    // Never merged further, so it always fits.
    static_cast<void>(
        found.others.Add(merged.dims[at], {merged.strides[0][at], merged.strides[1][at]}));
  }
  return found;
}

// Nothing: too large for 32-bit offsets.
std::optional<TiledArgs> Tile(const Merged<2>& merged, const Matrices& found,
                              size_t bytes) noexcept {
  const auto matrices = found.others.Finish();
  if (!matrices || matrices->count > matrices->slab) return std::nullopt;
  const auto row = static_cast<size_t>(found.row);
  const auto column = static_cast<size_t>(found.column);
  TiledArgs args{};
  args.rows = merged.dims[row];
  args.columns = merged.dims[column];
  args.x_stride = merged.strides[0][row];
  args.out_stride = merged.strides[1][column];
  args.matrices = *matrices;
  const int64_t tile = TUNABLEOP_TILE(bytes);
  const int64_t row_tiles = (args.rows + tile - 1) / tile;
  const int64_t column_tiles = (args.columns + tile - 1) / tile;
  if (row_tiles * column_tiles > 1 << 30) return std::nullopt;
  const int64_t tiles = row_tiles * column_tiles * matrices->count;
  if (tiles > 1 << 30) return std::nullopt;
  args.row_tiles = MakeDivisor(row_tiles);
  args.column_tiles = MakeDivisor(column_tiles);
  args.tiles = static_cast<UInt32>(tiles);
  return args;
}

}  // namespace

std::optional<TransposeLaunch> PrepareTranspose(const void* x, DimsView x_dims,
                                                DimsView permutation, void* out,
                                                size_t bytes) noexcept {
  const size_t rank = x_dims.size();
  if (rank != permutation.size() || rank > Dims::kMost) return std::nullopt;
  Dims x_strides(x_dims);
  int64_t stride = 1;
  for (size_t d = rank; d-- > 0;) {
    x_strides[static_cast<int>(d)] = stride;
    stride *= x_dims[d];
  }
  Dims dims;
  Dims strides;
  for (const int64_t from : permutation) {
    if (from < 0 || from >= static_cast<int64_t>(rank)) return std::nullopt;
    dims.Append(x_dims[static_cast<size_t>(from)]);
    strides.Append(x_strides[static_cast<int>(from)]);
  }
  Merged<2> merged;
  int64_t out_stride = 1;
  for (size_t d = rank; d-- > 0;) {
    const auto at = static_cast<int>(d);
    if (!merged.Add(dims[at], {strides[at], out_stride})) return std::nullopt;
    out_stride *= dims[at];
  }

  TransposeLaunch launch{};
  if (const auto found = FindMatrices(merged); found && ElementsOf(dims.view()) > 0) {
    if (auto args = Tile(merged, *found, bytes)) {
      launch.tiled = true;
      launch.tiled_args = *args;
      launch.tiled_args.x = x;
      launch.tiled_args.out = out;
      launch.grid.block = 256;
      launch.grid.x = std::min<UInt32>(args->tiles, 1U << 20);
      return launch;
    }
  }
  Dims out_strides(dims);
  out_stride = 1;
  for (int d = out_strides.rank() - 1; d >= 0; --d) {
    out_strides[d] = out_stride;
    out_stride *= dims[d];
  }
  const auto copy = PrepareCopy(x, strides.view(), out, out_strides.view(), dims.view(), bytes);
  if (!copy) return std::nullopt;
  launch.copy_args = copy->args;
  launch.grid = copy->grid;
  return launch;
}

}  // namespace tunableop::device
