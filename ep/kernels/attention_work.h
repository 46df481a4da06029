// What the kernel on tensor cores goes by: which rows and keys a block has, how they come into
// shared memory, and masks. Scores are of base 2.
//
// 16 bytes of a vector, a piece, are moved within its row of shared memory so that eight rows'
// equal pieces are in different banks.
#include "kernels/attention_place.h"
#include "kernels/tensor_core.h"

namespace tunableop::device::TUNABLEOP_MODULE {

constexpr UInt32 kSize = TUNABLEOP_HEAD_SIZE;
constexpr UInt32 kWarps = 4;
constexpr UInt32 kBlock = kWarps * 32;
constexpr UInt32 kNumbers = 16 / sizeof(T);   // of a piece
constexpr UInt32 kPieces = kSize / kNumbers;  // of a vector
constexpr UInt32 kEights = kSize / 8;         // numbers of a vector, in eights
constexpr UInt32 kSteps = kPieces / 2;        // of a product over a vector
constexpr UInt32 kPadded = kSize + 8;         // a row of results in shared memory, in numbers
constexpr float kLog2E = 1.4426950408889634F;
constexpr float kLargest = 3.4e38F;
constexpr float kLn2 = 0.6931471805599453F;

// Where a piece of a row of a tile is, in bytes.
TUNABLEOP_DEVICE UInt32 PieceAt(UInt32 row, UInt32 piece) {
  const UInt32 moved = kPieces % 8 == 0 ? piece ^ (row & 7) : piece ^ ((row >> 1) & 3);
  return (row * kPieces + moved) * 16;
}

// What a block works on.
struct Work {
  UInt32 split;
  UInt32 batch;
  UInt32 kv_head;
  UInt32 first_row;
  UInt32 begin;  // of its keys
  UInt32 end;
  UInt32 least_seen;  // where those end that all of its rows see
  Keys keys;
  const T* k;
  const T* v;
};

// One row of a thread's two.
struct Row {
  bool there;
  UInt32 query;
  UInt32 head;
  UInt32 seen;
  Int64 mask;
};

TUNABLEOP_DEVICE Row RowAt(const AttentionArgs& args, const Work& work, UInt32 number) {
  Row row;
  row.there = number < args.queries * args.sharing;
  row.query = number / args.sharing;
  row.head = work.kv_head * args.sharing + (number - row.query * args.sharing);
  row.seen = row.there ? SeenBy(args, work.keys, row.query) : 0;
  row.mask = row.there ? work.batch * args.mask_at.batch + row.head * args.mask_at.head +
                             row.query * args.mask_at.token
                       : 0;
  return row;
}

TUNABLEOP_DEVICE Work WorkOf(const AttentionArgs& args, UInt32 number, UInt32 tiles, UInt32 rows) {
  Work work;
  const UInt32 part = number / tiles;
  // Of causal ones those that see most begin.
  work.first_row = (tiles - 1 - (number - part * tiles)) * rows;
  const UInt32 above = part / args.splits;
  const UInt32 kv_heads = args.heads / args.sharing;
  work.split = part - above * args.splits;
  work.batch = above / kv_heads;
  work.kv_head = above - work.batch * kv_heads;
  work.keys = KeysOf(args, work.batch);
  work.begin = work.split * args.split_keys;
  work.least_seen = SeenBy(args, work.keys, work.first_row / args.sharing);
  work.end = SeenBy(args, work.keys, (work.first_row + rows - 1) / args.sharing);
  if (args.splits > 1) {
    const UInt32 part_end = work.begin + args.split_keys;
    work.end = work.end < part_end ? work.end : part_end;
  }
  work.k =
      static_cast<const T*>(args.k) + work.batch * args.k_at.batch + work.kv_head * args.k_at.head;
  work.v =
      static_cast<const T*>(args.v) + work.batch * args.v_at.batch + work.kv_head * args.v_at.head;
  return work;
}

// Begins to copy the vectors from `first` on; zeros where there are none.
template <UInt32 kTile>
TUNABLEOP_DEVICE void CopyTile(const T* from, Int64 token, UInt32 first, UInt32 end, UInt32 to) {
  TUNABLEOP_UNROLL
  for (UInt32 i = 0; i < kTile * kPieces / kBlock; ++i) {
    const UInt32 at = i * kBlock + ThreadInBlock();
    const UInt32 row = at / kPieces;
    const UInt32 piece = at - row * kPieces;
    const bool there = first + row < end;
    CopyAsync(to + PieceAt(row, piece),
              there ? from + (first + row) * token + piece * kNumbers : from, there);
  }
}

// A mask's number for scores of base 2: what is finite stays so.
TUNABLEOP_DEVICE float OfBaseTwo(float mask) {
  const float scaled = mask * kLog2E;
  return scaled == -Infinity() && mask != -Infinity() ? -kLargest : scaled;
}

// Whether one row of the mask is that of all rows of a block, and can be added.
TUNABLEOP_DEVICE bool OneMask(const AttentionArgs& args) {
  if (args.mask == nullptr || args.mask_at.token != 0) return false;
  if (args.mask_at.head != 0 && args.sharing != 1) return false;
  return args.mask_flags == 0 || args.fill < -1e30F;  // of which no score is left beside it
}

template <UInt32 kTile>
TUNABLEOP_DEVICE void CopyMask(const AttentionArgs& args, Int64 mask, UInt32 first, UInt32 end,
                               float* to) {
  for (UInt32 i = ThreadInBlock(); i < kTile; i += kBlock) {
    to[i] =
        first + i < end ? OfBaseTwo(Masked(args, 0.0F, mask + (first + i) * args.mask_step)) : 0.0F;
  }
}

// What the mask makes of two neighbours' scores; the second may be none.
TUNABLEOP_DEVICE void MaskPair(const AttentionArgs& args, Int64 at, bool second, float& left,
                               float& right) {
  if (args.mask_flags != 0) {
    const float fill = OfBaseTwo(args.fill);
    const types::b* const flags = static_cast<const types::b*>(args.mask) + at;
    Pack<types::b, 2> pair;
    if (args.mask_pairs != 0) {
      pair = LoadPack<types::b, 2>(flags);
    } else {
      pair.at[0] = *flags;
      pair.at[1] = second ? flags[args.mask_step] : *flags;
    }
    if (!Stays(args, pair.at[0])) left = fill;
    if (!Stays(args, pair.at[1])) right = fill;
  } else {
    const T* const numbers = static_cast<const T*>(args.mask) + at;
    Pack<T, 2> pair;
    if (args.mask_pairs != 0) {
      pair = LoadPack<T, 2>(numbers);
    } else {
      pair.at[0] = *numbers;
      pair.at[1] = second ? numbers[args.mask_step] : *numbers;
    }
    left += OfBaseTwo(Number<T>::Read(pair.at[0]));
    right += OfBaseTwo(Number<T>::Read(pair.at[1]));
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
