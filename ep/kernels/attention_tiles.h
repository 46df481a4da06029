// Attention on tensor cores, for vectors of TUNABLEOP_HEAD_SIZE numbers, a multiple of 32 up to
// 128. T0: f16 or bf16. Entries: attention_rows, attention_keys, for blocks of 128 threads. Sums
// are of floats, as are the scores; what is multiplied with the values is rounded to T0, as the
// nodes would round it. Where there are no such instructions the entries calculate as attention
// does.
//
// A block of attention_rows has kWarps * 16 rows or more, whose keys its warps read together; one
// of attention_keys has 16 rows, whose keys its warps share. A row is a query of one of the heads
// that share keys: those are read once for all of them. While the scores of a tile of keys are made
// its values arrive, and while these are summed the next tile's keys.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#include "kernels/attention_finish.h"
#else
#include "kernels/attention_plain.h"
#endif

namespace tunableop::device::TUNABLEOP_MODULE {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 800

TUNABLEOP_KERNEL(attention_rows, AttentionArgs) { RunPlain(args); }
TUNABLEOP_KERNEL(attention_keys, AttentionArgs) { RunPlain(args); }

#else

// Keys of a tile, and blocks that a multiprocessor has room for: what was fastest on an H200. Both
// tiles fit into 48 KiB.
constexpr UInt32 kTileOfRows = kPieces <= 4 ? 128 : kPieces <= 16 ? 64 : 32;
constexpr UInt32 kTileOfKeys = kPieces <= 8 ? 128 : kPieces <= 16 ? 64 : 32;
constexpr UInt32 kBlocksOfRows = kSize <= 64 ? 3 : 2;
constexpr UInt32 kBlocksOfKeys = 2;

// kRowWarps: warps of a block that have rows of their own; the others share those warps' rows.
// kRowTiles: rows of a warp, in sixteens. kTile: keys of a tile.
template <UInt32 kRowWarps, UInt32 kRowTiles, UInt32 kTile>
struct Tiles {
  static constexpr UInt32 kTileKeys = kTile;
  static constexpr UInt32 kRows = kRowWarps * kRowTiles * 16;
  static constexpr UInt32 kTileBytes = kTile * kPieces * 16;
  static constexpr UInt32 kMergeBytes = kWarps * 16 * kPadded * 4;
  static constexpr UInt32 kKeyWarps = kWarps / kRowWarps;
  static constexpr UInt32 kOwn = kTile / kKeyWarps;  // keys of a tile that a warp looks at
  static constexpr UInt32 kColumns = kOwn / 8;       // of eight keys

  struct Shared {
    // Keys, then values; at the end the warps' sums.
    alignas(16) unsigned char tiles[2 * kTileBytes > kMergeBytes ? 2 * kTileBytes : kMergeBytes];
    float added[2][kTile];  // to the scores of a tile, where all rows' is one
    float statistics[kWarps][16][2];
  };

  // What a thread has of sixteen rows: two of them, and of each eight columns two.
  struct Part {
    UInt32 q[kSteps][4];
    float sums[kEights][4];
    float scores[kColumns][4];
    float most[2];
    float weight[2];
    Row rows[2];
  };
  Part parts[kRowTiles];
  UInt32 lane;
  UInt32 row_warp;
  UInt32 key_warp;

  TUNABLEOP_METHOD void Begin(const AttentionArgs& args, const Work& work) {
    const UInt32 warp = ThreadInBlock() / 32;
    lane = ThreadInBlock() % 32;
    row_warp = warp / kKeyWarps;
    key_warp = warp % kKeyWarps;
    TUNABLEOP_UNROLL
    for (UInt32 t = 0; t < kRowTiles; ++t) BeginPart(args, work, t, parts[t]);
  }

  TUNABLEOP_METHOD void BeginPart(const AttentionArgs& args, const Work& work, UInt32 t,
                                  Part& part) {
    TUNABLEOP_UNROLL
    for (UInt32 r = 0; r < 2; ++r) {
      Row& row = part.rows[r];
      row = RowAt(args, work, work.first_row + (row_warp * kRowTiles + t) * 16 + r * 8 + lane / 4);
      part.most[r] = -Infinity();
      part.weight[r] = 0.0F;
      const auto* const from = reinterpret_cast<const UInt32*>(
          static_cast<const T*>(args.q) + work.batch * args.q_at.batch + row.head * args.q_at.head +
          row.query * args.q_at.token);
      TUNABLEOP_UNROLL
      for (UInt32 s = 0; s < kSteps; ++s) {
        part.q[s][r] = part.q[s][r + 2] = 0;
        if (row.there) {
          part.q[s][r] = Ready<T>(from[s * 8 + lane % 4]);
          part.q[s][r + 2] = Ready<T>(from[s * 8 + lane % 4 + 4]);
        }
      }
    }
    TUNABLEOP_UNROLL
    for (UInt32 p = 0; p < kEights; ++p) {
      TUNABLEOP_UNROLL
      for (UInt32 e = 0; e < 4; ++e) part.sums[p][e] = 0.0F;
    }
  }

  TUNABLEOP_METHOD void MultiplyKeys(UInt32 keys) {
    TUNABLEOP_UNROLL
    for (UInt32 t = 0; t < kRowTiles; ++t) {
      TUNABLEOP_UNROLL
      for (UInt32 c = 0; c < kColumns; ++c) {
        TUNABLEOP_UNROLL
        for (UInt32 e = 0; e < 4; ++e) parts[t].scores[c][e] = 0.0F;
      }
    }
    if constexpr (kColumns == 1) {  // four matrices are two steps of eight keys
      const UInt32 row = key_warp * kOwn + (lane & 7);
      TUNABLEOP_UNROLL
      for (UInt32 s = 0; s < kSteps; s += 2) {
        const Words4 k = ReadKeys(keys + PieceAt(row, s * 2 + (lane >> 3)));
        AddKeys(0, s, k.at[0], k.at[1]);
        AddKeys(0, s + 1, k.at[2], k.at[3]);
      }
    } else {  // one step of sixteen
      const UInt32 row = key_warp * kOwn + (lane & 7) + (lane >> 4) * 8;
      TUNABLEOP_UNROLL
      for (UInt32 s = 0; s < kSteps; ++s) {
        TUNABLEOP_UNROLL
        for (UInt32 c = 0; c < kColumns; c += 2) {
          const Words4 k = ReadKeys(keys + PieceAt(row + c * 8, s * 2 + ((lane >> 3) & 1)));
          AddKeys(c, s, k.at[0], k.at[1]);
          AddKeys(c + 1, s, k.at[2], k.at[3]);
        }
      }
    }
  }

  struct Words4 {
    UInt32 at[4];
  };
  TUNABLEOP_MEMBER Words4 ReadKeys(UInt32 from) {
    Words4 k;
    LoadMatrices(k.at, from);
    TUNABLEOP_UNROLL
    for (UInt32 e = 0; e < 4; ++e) k.at[e] = Ready<T>(k.at[e]);
    return k;
  }
  TUNABLEOP_METHOD void AddKeys(UInt32 c, UInt32 s, UInt32 k0, UInt32 k1) {
    TUNABLEOP_UNROLL
    for (UInt32 t = 0; t < kRowTiles; ++t)
      MultiplyAdd<T>(parts[t].scores[c], parts[t].q[s], k0, k1);
  }

  // What masks make of the scores, and weights of them.
  TUNABLEOP_METHOD void Weigh(const AttentionArgs& args, const Work& work, UInt32 first,
                              const float* added) {
    TUNABLEOP_UNROLL
    for (UInt32 t = 0; t < kRowTiles; ++t) {
      float scale = args.scale * kLog2E;  // that scores are still to be multiplied by
      if (args.mask != nullptr || !(scale > 0.0F)) {
        Mask(args, parts[t], first, scale, added);
        scale = 1.0F;
      }
      if (first + kTile > work.least_seen) Cut(parts[t], first);
      WeighPart(parts[t], scale);
    }
  }

  TUNABLEOP_METHOD void Mask(const AttentionArgs& args, Part& part, UInt32 first, float scale,
                             const float* added) {
    const UInt32 own = key_warp * kOwn + lane % 4 * 2;
    if (added != nullptr) {
      TUNABLEOP_UNROLL
      for (UInt32 c = 0; c < kColumns; ++c) {
        const auto pair = LoadPack<float, 2>(added + own + c * 8);
        TUNABLEOP_UNROLL
        for (UInt32 e = 0; e < 4; ++e) {
          part.scores[c][e] = part.scores[c][e] * scale + pair.at[e % 2];
        }
      }
      return;
    }
    TUNABLEOP_UNROLL
    for (UInt32 c = 0; c < kColumns; ++c) {
      TUNABLEOP_UNROLL
      for (UInt32 e = 0; e < 4; ++e) part.scores[c][e] *= scale;
    }
    if (args.mask == nullptr) return;
    TUNABLEOP_UNROLL
    for (UInt32 r = 0; r < 2; ++r) {
      const Row& row = part.rows[r];
      TUNABLEOP_UNROLL
      for (UInt32 c = 0; c < kColumns; ++c) {
        const UInt32 key = first + own + c * 8;
        if (key >= row.seen) continue;
        MaskPair(args, row.mask + key * args.mask_step, key + 1 < row.seen, part.scores[c][r * 2],
                 part.scores[c][r * 2 + 1]);
      }
    }
  }

  // What is not seen counts nothing.
  TUNABLEOP_METHOD void Cut(Part& part, UInt32 first) {
    const UInt32 own = first + key_warp * kOwn + lane % 4 * 2;
    TUNABLEOP_UNROLL
    for (UInt32 c = 0; c < kColumns; ++c) {
      TUNABLEOP_UNROLL
      for (UInt32 e = 0; e < 4; ++e) {
        if (own + c * 8 + e % 2 >= part.rows[e / 2].seen) part.scores[c][e] = -Infinity();
      }
    }
  }

  TUNABLEOP_METHOD void WeighPart(Part& part, float scale) {
    TUNABLEOP_UNROLL
    for (UInt32 r = 0; r < 2; ++r) {
      float now = -Infinity();
      TUNABLEOP_UNROLL
      for (UInt32 c = 0; c < kColumns; ++c) {
        now = fmaxf(now, fmaxf(part.scores[c][r * 2], part.scores[c][r * 2 + 1]));
      }
      now = fmaxf(now, ShuffleXor(now, 1, 32));
      now = fmaxf(now, ShuffleXor(now, 2, 32));
      now = fmaxf(part.most[r], now * scale);
      const float from = now == -Infinity() ? 0.0F : now;  // nothing counts so far
      const float factor = PowerOfTwo(part.most[r] - from);
      part.most[r] = now;
      part.weight[r] *= factor;
      TUNABLEOP_UNROLL
      for (UInt32 c = 0; c < kColumns; ++c) {
        TUNABLEOP_UNROLL
        for (UInt32 e = r * 2; e < r * 2 + 2; ++e) {
          part.scores[c][e] = PowerOfTwo(part.scores[c][e] * scale - from);
          part.weight[r] += part.scores[c][e];
        }
      }
      TUNABLEOP_UNROLL
      for (UInt32 p = 0; p < kEights; ++p) {
        part.sums[p][r * 2] *= factor;
        part.sums[p][r * 2 + 1] *= factor;
      }
    }
  }

  TUNABLEOP_METHOD void MultiplyHalves(UInt32 values) {
    const UInt32 row = key_warp * kOwn + (lane & 15);
    TUNABLEOP_UNROLL
    for (UInt32 c = 0; c < kColumns; c += 2) {
      UInt32 p[kRowTiles][4];
      TUNABLEOP_UNROLL
      for (UInt32 t = 0; t < kRowTiles; ++t) {
        const auto& scores = parts[t].scores;
        p[t][0] = PairOf<T>(scores[c][0], scores[c][1]);
        p[t][1] = PairOf<T>(scores[c][2], scores[c][3]);
        p[t][2] = PairOf<T>(scores[c + 1][0], scores[c + 1][1]);
        p[t][3] = PairOf<T>(scores[c + 1][2], scores[c + 1][3]);
      }
      TUNABLEOP_UNROLL
      for (UInt32 eight = 0; eight < kEights; eight += 2) {
        UInt32 v[4];
        LoadTransposed(v, values + PieceAt(row + c * 8, eight + (lane >> 4)));
        TUNABLEOP_UNROLL
        for (UInt32 t = 0; t < kRowTiles; ++t) {
          MultiplyAdd<T>(parts[t].sums[eight], p[t], v[0], v[1]);
          MultiplyAdd<T>(parts[t].sums[eight + 1], p[t], v[2], v[3]);
        }
      }
    }
  }

  // The same with floats, of which there is no transposing load: a thread takes its two numbers of
  // each eight keys by itself. It has the weights of two neighbours, and so these are keys q and q
  // + 4 of the product, as which no sum minds.
  TUNABLEOP_METHOD void MultiplySingles(UInt32 values) {
    const UInt32 row = key_warp * kOwn + lane % 4 * 2;
    TUNABLEOP_UNROLL
    for (UInt32 c = 0; c < kColumns; ++c) {
      UInt32 p[kRowTiles][4];
      TUNABLEOP_UNROLL
      for (UInt32 t = 0; t < kRowTiles; ++t) {
        const auto& scores = parts[t].scores;
        p[t][0] = Ready<T>(BitsOf(scores[c][0]));
        p[t][1] = Ready<T>(BitsOf(scores[c][2]));
        p[t][2] = Ready<T>(BitsOf(scores[c][1]));
        p[t][3] = Ready<T>(BitsOf(scores[c][3]));
      }
      TUNABLEOP_UNROLL
      for (UInt32 eight = 0; eight < kEights; ++eight) {
        const UInt32 piece = eight * 2 + lane / 16;
        const UInt32 within = lane / 4 % 4 * 4;
        const UInt32 v0 = Ready<T>(LoadShared(values + PieceAt(row + c * 8, piece) + within));
        const UInt32 v1 = Ready<T>(LoadShared(values + PieceAt(row + c * 8 + 1, piece) + within));
        TUNABLEOP_UNROLL
        for (UInt32 t = 0; t < kRowTiles; ++t) {
          MultiplyAdd<T>(parts[t].sums[eight], p[t], v0, v1);
        }
      }
    }
  }

  TUNABLEOP_METHOD void MultiplyValues(UInt32 values) {
    if constexpr (Alike<T, float>::kValue) {
      MultiplySingles(values);
    } else {
      MultiplyHalves(values);
    }
  }

  // Sixteen rows of each warp, one after another in shared memory, each row's warps merged into one
  // sum, and from there to where they belong.
  TUNABLEOP_METHOD void Finish(const AttentionArgs& args, const Work& work, Shared& shared) {
    TUNABLEOP_UNROLL
    for (UInt32 t = 0; t < kRowTiles; ++t) FinishPart(args, work, t, parts[t], shared);
  }

  TUNABLEOP_METHOD void FinishPart(const AttentionArgs& args, const Work& work, UInt32 t,
                                   Part& part, Shared& shared) {
    float* const all = reinterpret_cast<float*>(shared.tiles);
    float* const own = all + (ThreadInBlock() / 32 * 16 + lane / 4) * kPadded + lane % 4 * 2;
    SyncBlock();  // everybody is done with what was there before
    TUNABLEOP_UNROLL
    for (UInt32 r = 0; r < 2; ++r) {
      float weight = part.weight[r];
      weight += ShuffleXor(weight, 1, 32);
      weight += ShuffleXor(weight, 2, 32);
      if (lane % 4 == 0) {
        float* const statistics = shared.statistics[ThreadInBlock() / 32][r * 8 + lane / 4];
        statistics[0] = part.most[r];
        statistics[1] = weight;
      }
    }
    TUNABLEOP_UNROLL
    for (UInt32 p = 0; p < kEights; ++p) {
      StorePack(own + p * 8, Pack<float, 2>{{part.sums[p][0], part.sums[p][1]}});
      StorePack(own + 8 * kPadded + p * 8, Pack<float, 2>{{part.sums[p][2], part.sums[p][3]}});
    }
    SyncBlock();
    WriteRows<kRowWarps, kRowTiles>(args, work, t, all, shared.statistics);
  }
};

template <class Tile>
TUNABLEOP_DEVICE void RunTiles(const AttentionArgs& args, typename Tile::Shared& shared) {
  constexpr UInt32 kTile = Tile::kTileKeys;
  const UInt32 tiles = (args.queries * args.sharing + Tile::kRows - 1) / Tile::kRows;
  const UInt32 count = tiles * args.splits * (args.heads / args.sharing) * args.batches;
  const UInt32 keys = SharedAddress(shared.tiles);
  const UInt32 values = keys + Tile::kTileBytes;
  const bool one_mask = OneMask(args);
  for (UInt32 number = BlockX(); number < count; number += BlocksX()) {
    const Work work = WorkOf(args, number, tiles, Tile::kRows);
    const Int64 mask =
        work.batch * args.mask_at.batch + work.kv_head * args.sharing * args.mask_at.head;
    Tile own;
    if (number != BlockX()) SyncBlock();  // what was there before has been read
    CopyTile<kTile>(work.k, args.k_at.token, work.begin, work.end, keys);
    CommitCopies();
    CopyTile<kTile>(work.v, args.v_at.token, work.begin, work.end, values);
    CommitCopies();
    own.Begin(args, work);
    if (one_mask) CopyMask<kTile>(args, mask, work.begin, work.end, shared.added[0]);
    WaitForCopies<1>();
    SyncBlock();
    UInt32 turn = 0;
    for (UInt32 first = work.begin; first < work.end; first += kTile) {
      own.MultiplyKeys(keys);
      own.Weigh(args, work, first, one_mask ? shared.added[turn] : nullptr);
      turn ^= 1;
      WaitForCopies<0>();
      SyncBlock();  // all keys were read, all values have come
      const bool last = first + kTile >= work.end;
      if (!last) {
        CopyTile<kTile>(work.k, args.k_at.token, first + kTile, work.end, keys);
        CommitCopies();
        if (one_mask) CopyMask<kTile>(args, mask, first + kTile, work.end, shared.added[turn]);
      }
      own.MultiplyValues(values);
      if (last) break;
      WaitForCopies<0>();
      SyncBlock();  // all values were read, all keys have come
      CopyTile<kTile>(work.v, args.v_at.token, first + kTile, work.end, values);
      CommitCopies();
    }
    WaitForCopies<0>();  // where there are no keys
    own.Finish(args, work, shared);
  }
}

extern "C" __global__ void __launch_bounds__(128, kBlocksOfRows)
    attention_rows(const AttentionArgs args) {
  using Tile = Tiles<kWarps, 1, kTileOfRows>;
  __shared__ Tile::Shared shared;
  if (ThreadsOfBlock() == kBlock) RunTiles<Tile>(args, shared);  // no other was asked for
}

extern "C" __global__ void __launch_bounds__(128, kBlocksOfKeys)
    attention_keys(const AttentionArgs args) {
  using Tile = Tiles<1, 1, kTileOfKeys>;
  __shared__ Tile::Shared shared;
  if (ThreadsOfBlock() == kBlock) RunTiles<Tile>(args, shared);
}

#endif

}  // namespace tunableop::device::TUNABLEOP_MODULE
