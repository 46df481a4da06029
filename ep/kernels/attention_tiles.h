// Attention on tensor cores, for vectors of TUNABLEOP_HEAD_SIZE numbers, a multiple of 32 up to
// 128. T0: f16 or bf16. Entry: attention_tiles, for blocks of kBlock threads. Sums are of floats,
// as are the scores; what is multiplied with the values is rounded to T0, as the nodes would round
// it. Where there are no such instructions the entry calculates as attention does.
//
// A block has 64 rows, 16 a warp, or (few_rows) 16 rows, whose keys its warps share. A row is a
// query of one of the heads that share keys: those are read once for all of them. While the scores
// of a tile of keys are made its values arrive, and while these are summed the next tile's keys.
//
// 16 bytes of a vector, a piece, are moved within its row of shared memory so that eight rows'
// equal pieces are in different banks.
#include "kernels/attention_plain.h"

#if defined(TUNABLEOP_ON_CUDA) && __CUDA_ARCH__ >= 800
#define TUNABLEOP_HAS_TILES 1
#include "kernels/tensor_core.h"
#endif

namespace tunableop::device::TUNABLEOP_MODULE {

#ifndef TUNABLEOP_HAS_TILES

TUNABLEOP_KERNEL(attention_tiles, AttentionArgs) { RunPlain(args); }

#else

constexpr UInt32 kSize = TUNABLEOP_HEAD_SIZE;
constexpr UInt32 kTile = kSize <= 64 ? 128 : 64;  // keys
constexpr UInt32 kWarps = 4;
constexpr UInt32 kBlock = kWarps * 32;
constexpr UInt32 kPieces = kSize / 8;  // of a vector
constexpr UInt32 kTileBytes = kTile * kSize * 2;
constexpr UInt32 kPadded = kSize + 8;  // a row of results in shared memory, in numbers
constexpr UInt32 kMergeBytes = kWarps * 16 * kPadded * 4;
constexpr UInt32 kSharedBytes = 2 * kTileBytes > kMergeBytes ? 2 * kTileBytes : kMergeBytes;
constexpr float kLog2E = 1.4426950408889634F;
constexpr float kLargest = 3.4e38F;
constexpr float kLn2 = 0.6931471805599453F;

struct Shared {
  alignas(16) unsigned char tiles[kSharedBytes];  // keys, then values; at the end the warps' sums
  float added[2][kTile];                          // to the scores of a tile, where all rows' is one
  float statistics[kWarps][16][2];
};

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
TUNABLEOP_DEVICE void CopyTile(const T* from, Int64 token, UInt32 first, UInt32 end, UInt32 to) {
  TUNABLEOP_UNROLL
  for (UInt32 i = 0; i < kTile * kPieces / kBlock; ++i) {
    const UInt32 at = i * kBlock + ThreadInBlock();
    const UInt32 row = at / kPieces;
    const UInt32 piece = at - row * kPieces;
    const bool there = first + row < end;
    CopyAsync(to + PieceAt(row, piece), there ? from + (first + row) * token + piece * 8 : from,
              there);
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

// kRowWarps: warps of a block that have rows of their own; the others share those warps' rows.
template <UInt32 kRowWarps>
struct Tiles {
  static constexpr UInt32 kRows = kRowWarps * 16;
  static constexpr UInt32 kKeyWarps = kWarps / kRowWarps;
  static constexpr UInt32 kOwn = kTile / kKeyWarps;  // keys of a tile that a warp looks at
  static constexpr UInt32 kColumns = kOwn / 8;       // of eight keys
  static constexpr UInt32 kSteps = kSize / 16;

  // What a thread has of its warp's 16 rows: two of them, and of each eight columns two.
  UInt32 q[kSteps][4];
  float sums[kPieces][4];
  float scores[kColumns][4];
  float most[2];
  float weight[2];
  Row rows[2];
  UInt32 lane;
  UInt32 row_warp;
  UInt32 key_warp;

  TUNABLEOP_METHOD void Begin(const AttentionArgs& args, const Work& work) {
    const UInt32 warp = ThreadInBlock() / 32;
    lane = ThreadInBlock() % 32;
    row_warp = warp / kKeyWarps;
    key_warp = warp % kKeyWarps;
    TUNABLEOP_UNROLL
    for (UInt32 r = 0; r < 2; ++r) {
      rows[r] = RowAt(args, work, work.first_row + row_warp * 16 + r * 8 + lane / 4);
      most[r] = -Infinity();
      weight[r] = 0.0F;
      const T* const from = static_cast<const T*>(args.q) + work.batch * args.q_at.batch +
                            rows[r].head * args.q_at.head + rows[r].query * args.q_at.token +
                            lane % 4 * 2;
      TUNABLEOP_UNROLL
      for (UInt32 s = 0; s < kSteps; ++s) {
        q[s][r] = q[s][r + 2] = 0;
        if (rows[r].there) {
          q[s][r] = *reinterpret_cast<const UInt32*>(from + s * 16);
          q[s][r + 2] = *reinterpret_cast<const UInt32*>(from + s * 16 + 8);
        }
      }
    }
    TUNABLEOP_UNROLL
    for (UInt32 p = 0; p < kPieces; ++p) {
      TUNABLEOP_UNROLL
      for (UInt32 e = 0; e < 4; ++e) sums[p][e] = 0.0F;
    }
  }

  TUNABLEOP_METHOD void MultiplyKeys(UInt32 keys) {
    const UInt32 row = key_warp * kOwn + (lane & 7) + (lane >> 4) * 8;
    TUNABLEOP_UNROLL
    for (UInt32 c = 0; c < kColumns; c += 2) {
      TUNABLEOP_UNROLL
      for (UInt32 e = 0; e < 4; ++e) scores[c][e] = scores[c + 1][e] = 0.0F;
      TUNABLEOP_UNROLL
      for (UInt32 s = 0; s < kSteps; ++s) {
        UInt32 k[4];
        LoadMatrices(k, keys + PieceAt(row + c * 8, s * 2 + ((lane >> 3) & 1)));
        MultiplyAdd<T>(scores[c], q[s], k[0], k[1]);
        MultiplyAdd<T>(scores[c + 1], q[s], k[2], k[3]);
      }
    }
  }

  // Scores of base 2, with what is added to them; what is not seen is none.
  TUNABLEOP_METHOD void Mask(const AttentionArgs& args, const Work& work, UInt32 first,
                             const float* added) {
    const UInt32 own = key_warp * kOwn + lane % 4 * 2;
    const float scale = args.scale * kLog2E;
    TUNABLEOP_UNROLL
    for (UInt32 c = 0; c < kColumns; ++c) {
      TUNABLEOP_UNROLL
      for (UInt32 e = 0; e < 4; ++e) scores[c][e] *= scale;
    }
    if (added != nullptr) {
      TUNABLEOP_UNROLL
      for (UInt32 c = 0; c < kColumns; ++c) {
        const auto pair = LoadPack<float, 2>(added + own + c * 8);
        TUNABLEOP_UNROLL
        for (UInt32 e = 0; e < 4; ++e) scores[c][e] += pair.at[e % 2];
      }
    } else if (args.mask != nullptr) {
      TUNABLEOP_UNROLL
      for (UInt32 r = 0; r < 2; ++r) {
        TUNABLEOP_UNROLL
        for (UInt32 c = 0; c < kColumns; ++c) {
          const UInt32 key = first + own + c * 8;
          if (key >= rows[r].seen) continue;
          MaskPair(args, rows[r].mask + key * args.mask_step, key + 1 < rows[r].seen,
                   scores[c][r * 2], scores[c][r * 2 + 1]);
        }
      }
    }
    if (first + kTile <= work.least_seen) return;
    TUNABLEOP_UNROLL
    for (UInt32 c = 0; c < kColumns; ++c) {
      TUNABLEOP_UNROLL
      for (UInt32 e = 0; e < 4; ++e) {
        if (first + own + c * 8 + e % 2 >= rows[e / 2].seen) scores[c][e] = -Infinity();
      }
    }
  }

  TUNABLEOP_METHOD void Weigh() {
    TUNABLEOP_UNROLL
    for (UInt32 r = 0; r < 2; ++r) {
      float now = most[r];
      TUNABLEOP_UNROLL
      for (UInt32 c = 0; c < kColumns; ++c) {
        now = fmaxf(now, fmaxf(scores[c][r * 2], scores[c][r * 2 + 1]));
      }
      now = fmaxf(now, ShuffleXor(now, 1, 32));
      now = fmaxf(now, ShuffleXor(now, 2, 32));
      const float from = now == -Infinity() ? 0.0F : now;  // nothing counts so far
      const float factor = PowerOfTwo(most[r] - from);
      most[r] = now;
      weight[r] *= factor;
      TUNABLEOP_UNROLL
      for (UInt32 c = 0; c < kColumns; ++c) {
        TUNABLEOP_UNROLL
        for (UInt32 e = r * 2; e < r * 2 + 2; ++e) {
          scores[c][e] = PowerOfTwo(scores[c][e] - from);
          weight[r] += scores[c][e];
        }
      }
      TUNABLEOP_UNROLL
      for (UInt32 p = 0; p < kPieces; ++p) {
        sums[p][r * 2] *= factor;
        sums[p][r * 2 + 1] *= factor;
      }
    }
  }

  TUNABLEOP_METHOD void MultiplyValues(UInt32 values) {
    const UInt32 row = key_warp * kOwn + (lane & 15);
    TUNABLEOP_UNROLL
    for (UInt32 c = 0; c < kColumns; c += 2) {
      const UInt32 p[4] = {PairOf<T>(scores[c][0], scores[c][1]),
                           PairOf<T>(scores[c][2], scores[c][3]),
                           PairOf<T>(scores[c + 1][0], scores[c + 1][1]),
                           PairOf<T>(scores[c + 1][2], scores[c + 1][3])};
      TUNABLEOP_UNROLL
      for (UInt32 piece = 0; piece < kPieces; piece += 2) {
        UInt32 v[4];
        LoadTransposed(v, values + PieceAt(row + c * 8, piece + (lane >> 4)));
        MultiplyAdd<T>(sums[piece], p, v[0], v[1]);
        MultiplyAdd<T>(sums[piece + 1], p, v[2], v[3]);
      }
    }
  }

  // The warps' rows, one after another in shared memory, each row's warps merged into one sum, and
  // from there to where they belong.
  TUNABLEOP_METHOD void Finish(const AttentionArgs& args, const Work& work, Shared& shared) {
    TUNABLEOP_UNROLL
    for (UInt32 r = 0; r < 2; ++r) {
      weight[r] += ShuffleXor(weight[r], 1, 32);
      weight[r] += ShuffleXor(weight[r], 2, 32);
      if (lane % 4 == 0) {
        float* const own = shared.statistics[ThreadInBlock() / 32][r * 8 + lane / 4];
        own[0] = most[r];
        own[1] = weight[r];
      }
    }
    float* const all = reinterpret_cast<float*>(shared.tiles);
    float* const own = all + (ThreadInBlock() / 32 * 16 + lane / 4) * kPadded + lane % 4 * 2;
    SyncBlock();  // everybody is done with keys and values
    TUNABLEOP_UNROLL
    for (UInt32 p = 0; p < kPieces; ++p) {
      StorePack(own + p * 8, Pack<float, 2>{{sums[p][0], sums[p][1]}});
      StorePack(own + 8 * kPadded + p * 8, Pack<float, 2>{{sums[p][2], sums[p][3]}});
    }
    SyncBlock();
    for (UInt32 i = ThreadInBlock(); i < kRows * kPieces; i += kBlock) {
      const UInt32 number = i / kPieces;
      const UInt32 piece = i - number * kPieces;
      const UInt32 warp = number / 16 * kKeyWarps;
      const UInt32 within = number % 16;
      float largest = -Infinity();
      TUNABLEOP_UNROLL
      for (UInt32 w = 0; w < kKeyWarps; ++w) {
        largest = fmaxf(largest, shared.statistics[warp + w][within][0]);
      }
      const float from = largest == -Infinity() ? 0.0F : largest;
      float total = 0.0F;
      float sum[8] = {};
      TUNABLEOP_UNROLL
      for (UInt32 w = 0; w < kKeyWarps; ++w) {
        const float factor = PowerOfTwo(shared.statistics[warp + w][within][0] - from);
        total += shared.statistics[warp + w][within][1] * factor;
        const float* const at = all + ((warp + w) * 16 + within) * kPadded + piece * 8;
        TUNABLEOP_UNROLL
        for (UInt32 half = 0; half < 2; ++half) {
          const auto four = LoadPack<float, 4>(at + half * 4);
          TUNABLEOP_UNROLL
          for (UInt32 e = 0; e < 4; ++e) sum[half * 4 + e] += four.at[e] * factor;
        }
      }
      const Row row = RowAt(args, work, work.first_row + number);
      if (row.there) Write(args, work, row, piece, sum, largest, total);
    }
  }

  TUNABLEOP_METHOD void Write(const AttentionArgs& args, const Work& work, const Row& row,
                              UInt32 piece, const float (&sum)[8], float largest, float total) {
    if (args.partial != nullptr) {
      const Int64 number =
          (static_cast<Int64>(work.batch) * args.heads + row.head) * args.queries + row.query;
      float* const to = PartialSum(args, work.split, number) + piece * 8;
      TUNABLEOP_UNROLL
      for (UInt32 half = 0; half < 2; ++half) {
        StorePack(to + half * 4, Pack<float, 4>{{sum[half * 4], sum[half * 4 + 1],
                                                 sum[half * 4 + 2], sum[half * 4 + 3]}});
      }
      if (piece != 0) return;
      float* const weights = PartialWeight(args, work.split, number);
      weights[0] = largest * kLn2;
      weights[1] = total;
      return;
    }
    const float factor = 1.0F / total;
    Pack<UInt32, 4> packed;
    TUNABLEOP_UNROLL
    for (UInt32 e = 0; e < 4; ++e) {
      packed.at[e] = PairOf<T>(sum[e * 2] * factor, sum[e * 2 + 1] * factor);
    }
    T* const out = static_cast<T*>(args.out) + work.batch * args.out_at.batch +
                   row.head * args.out_at.head + row.query * args.out_at.token + piece * 8;
    StorePack(reinterpret_cast<UInt32*>(out), packed);
  }
};

template <UInt32 kRowWarps>
TUNABLEOP_DEVICE void RunTiles(const AttentionArgs& args, Shared& shared) {
  constexpr UInt32 kRows = kRowWarps * 16;
  const UInt32 tiles = (args.queries * args.sharing + kRows - 1) / kRows;
  const UInt32 count = tiles * args.splits * (args.heads / args.sharing) * args.batches;
  const UInt32 keys = SharedAddress(shared.tiles);
  const UInt32 values = keys + kTileBytes;
  const bool one_mask = OneMask(args);
  for (UInt32 number = BlockX(); number < count; number += BlocksX()) {
    const Work work = WorkOf(args, number, tiles, kRows);
    const Int64 mask =
        work.batch * args.mask_at.batch + work.kv_head * args.sharing * args.mask_at.head;
    Tiles<kRowWarps> own;
    if (number != BlockX()) SyncBlock();  // what was there before has been read
    CopyTile(work.k, args.k_at.token, work.begin, work.end, keys);
    CommitCopies();
    CopyTile(work.v, args.v_at.token, work.begin, work.end, values);
    CommitCopies();
    own.Begin(args, work);
    if (one_mask) CopyMask(args, mask, work.begin, work.end, shared.added[0]);
    WaitForCopies<1>();
    SyncBlock();
    UInt32 turn = 0;
    for (UInt32 first = work.begin; first < work.end; first += kTile) {
      own.MultiplyKeys(keys);
      own.Mask(args, work, first, one_mask ? shared.added[turn] : nullptr);
      own.Weigh();
      turn ^= 1;
      WaitForCopies<0>();
      SyncBlock();  // all keys were read, all values have come
      const bool last = first + kTile >= work.end;
      if (!last) {
        CopyTile(work.k, args.k_at.token, first + kTile, work.end, keys);
        CommitCopies();
        if (one_mask) CopyMask(args, mask, first + kTile, work.end, shared.added[turn]);
      }
      own.MultiplyValues(values);
      if (last) break;
      WaitForCopies<0>();
      SyncBlock();  // all values were read, all keys have come
      CopyTile(work.v, args.v_at.token, first + kTile, work.end, values);
      CommitCopies();
    }
    WaitForCopies<0>();  // where there are no keys
    own.Finish(args, work, shared);
  }
}

extern "C" __global__ void __launch_bounds__(128) attention_tiles(const AttentionArgs args) {
  __shared__ Shared shared;
  if (ThreadsOfBlock() != kBlock) return;  // such a block was not asked for
  if (args.few_rows != 0) {
    RunTiles<1>(args, shared);
  } else {
    RunTiles<kWarps>(args, shared);
  }
}

#endif

}  // namespace tunableop::device::TUNABLEOP_MODULE
