// Moving elements. T0: w1, w2, w4 or w8. Entries: copy (by strides: parts of a concatenation,
// slices, broadcasts, tiles, permutations that leave the innermost dimension where it is),
// copy_tiled (permutations that do not), copy_pad.
#include "kernels/access.h"
#include "kernels/copy_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;

constexpr int kElements = kPackOf<T>;

TUNABLEOP_DEVICE Pack<T, kElements> LoadOperand(const T* from, Int32 stride) {
  if (stride != 0) return LoadPack<T, kElements>(from);
  Pack<T, kElements> pack;
  const T value = *from;
  TUNABLEOP_UNROLL
  for (int i = 0; i < kElements; ++i) pack.at[i] = value;
  return pack;
}

// Elements that make no whole pack are only there in one dimension.
TUNABLEOP_DEVICE void RunPacked(const Strided<2>& shape, const T* x, T* out, UInt32 count) {
  const Int32 stride = shape.strides[0][0];
  const UInt32 packs = count / kElements;
  for (UInt32 i = GlobalThread(); i < packs; i += GlobalThreads()) {
    Int32 at[2];
    OffsetsOf(shape, i, at);
    StorePack(out + at[1], LoadOperand(x + at[0], stride));
  }
  const UInt32 rest = packs * kElements + GlobalThread();
  for (UInt32 i = rest; i < count; i += GlobalThreads()) out[i] = x[stride != 0 ? i : 0];
}

TUNABLEOP_KERNEL(copy, CopyArgs) {
  const Int64 slabs = SlabsOf(args.shape);
  for (Int64 slab = BlockY(); slab < slabs; slab += BlocksY()) {
    const T* const x = static_cast<const T*>(args.x) + slab * args.shape.slab_strides[0];
    T* const out = static_cast<T*>(args.out) + slab * args.shape.slab_strides[1];
    const UInt32 count = CountOf(args.shape, slab);
    if (args.packed != 0) {
      RunPacked(args.shape, x, out, count);
      continue;
    }
    for (UInt32 i = GlobalThread(); i < count; i += GlobalThreads()) {
      Int32 at[2];
      OffsetsOf(args.shape, i, at);
      out[at[1]] = x[at[0]];
    }
  }
}

// Through memory of the block, so that reading and writing both go along what is contiguous. The
// column more keeps a column of the tile out of one bank.
constexpr UInt32 kTile = TUNABLEOP_TILE(sizeof(T));

TUNABLEOP_KERNEL(copy_tiled, TiledArgs) {
  TUNABLEOP_SHARED T tile[kTile][kTile + 4 / (sizeof(T) < 4 ? sizeof(T) : 4)];
  for (UInt32 number = BlockX(); number < args.tiles; number += BlocksX()) {
    const UInt32 above = Quotient(number, args.column_tiles);
    const UInt32 matrix = Quotient(above, args.row_tiles);
    const Int64 row = static_cast<Int64>(above - matrix * args.row_tiles.divisor) * kTile;
    const Int64 column = static_cast<Int64>(number - above * args.column_tiles.divisor) * kTile;
    Int32 at[2];
    OffsetsOf(args.matrices, matrix, at);
    const T* const x = static_cast<const T*>(args.x) + at[0] + row * args.x_stride + column;
    T* const out = static_cast<T*>(args.out) + at[1] + column * args.out_stride + row;
    const UInt32 rows = static_cast<UInt32>(args.rows - row < kTile ? args.rows - row : kTile);
    const UInt32 columns =
        static_cast<UInt32>(args.columns - column < kTile ? args.columns - column : kTile);
    SyncBlock();  // the last tile has been written
    for (UInt32 i = ThreadInBlock(); i < kTile * kTile; i += ThreadsOfBlock()) {
      const UInt32 r = i / kTile;
      const UInt32 c = i % kTile;
      if (r < rows && c < columns) tile[r][c] = x[r * args.x_stride + c];
    }
    SyncBlock();
    for (UInt32 i = ThreadInBlock(); i < kTile * kTile; i += ThreadsOfBlock()) {
      const UInt32 c = i / kTile;
      const UInt32 r = i % kTile;
      if (r < rows && c < columns) out[c * args.out_stride + r] = tile[r][c];
    }
  }
}

// Where an index of the output is in x; less than zero: nowhere.
TUNABLEOP_DEVICE Int64 Inside(Int64 at, Int64 size, PadMode mode) {
  if (at >= 0 && at < size) return at;
  if (mode == PadMode::kConstant || size <= 0) return -1;
  if (mode == PadMode::kEdge) return at < 0 ? 0 : size - 1;
  if (mode == PadMode::kWrap) return (at % size + size) % size;
  const Int64 period = size > 1 ? 2 * (size - 1) : 1;
  const Int64 within = (at % period + period) % period;
  return within < size ? within : period - within;
}

TUNABLEOP_KERNEL(copy_pad, PadArgs) {
  const T* const x = static_cast<const T*>(args.x);
  T* const out = static_cast<T*>(args.out);
  for (Int64 i = GlobalThread(); i < args.count; i += GlobalThreads()) {
    Int64 left = i;
    Int64 offset = 0;
    bool inside = true;
    TUNABLEOP_UNROLL
    for (int d = 0; d < kMaxRank; ++d) {
      if (static_cast<UInt32>(d) >= args.rank) break;
      const Int64 rest = left / args.dims[d];
      const Int64 at =
          Inside(left - rest * args.dims[d] - args.before[d], args.sizes[d], args.mode);
      inside = inside && at >= 0;
      offset += at * args.strides[d];
      left = rest;
    }
    out[i] = inside ? x[offset] : static_cast<T>(args.value);
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
