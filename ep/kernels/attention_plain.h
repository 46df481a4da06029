// Attention for any type, vector and block: keys go by in tiles, each query's sum is rescaled as
// its largest score grows. T0: f32, f16 or bf16, calculated with as floats. A query that sees
// nothing is NaN, as by the formula.
//
// A query belongs to a team of threads, each of which has a part of the vector; where there are too
// few queries to keep a card busy, several teams share the keys of one.
#include "kernels/attention_place.h"

namespace tunableop::device::TUNABLEOP_MODULE {

constexpr UInt32 kChunk = 4;  // numbers that lie together
// Chunks of one thread's part. On the host a team may be a single thread.
#ifdef TUNABLEOP_ON_HOST
constexpr UInt32 kChunks = 64;
#else
constexpr UInt32 kChunks = 4;
#endif
constexpr UInt32 kGroup = 8;           // keys that are looked at together
constexpr UInt32 kTileNumbers = 4096;  // of the keys of a tile, and as many of its values

struct Part {
  float at[kChunks][kChunk];
};

// What a team knows of its query.
struct Query {
  Part sum;
  float most;
  float weight;
};

// `step`: from one number to the next. `size`: numbers of the vector.
TUNABLEOP_DEVICE void ReadChunk(const AttentionArgs& args, const T* from, Int64 step, UInt32 size,
                                UInt32 first, float (&to)[kChunk]) {
  if (args.packed != 0 && first < size) {
    const Pack<T, kChunk> pack = LoadPack<T, kChunk>(from + first);
    TUNABLEOP_UNROLL
    for (UInt32 e = 0; e < kChunk; ++e) to[e] = Number<T>::Read(pack.at[e]);
    return;
  }
  TUNABLEOP_UNROLL
  for (UInt32 e = 0; e < kChunk; ++e) {
    to[e] = first + e < size ? Number<T>::Read(from[(first + e) * step]) : 0.0F;
  }
}

// Keys or values of a tile, as floats, vectors one after another.
TUNABLEOP_DEVICE void LoadTile(const AttentionArgs& args, const T* from, Int64 token, Int64 step,
                               UInt32 size, UInt32 count, UInt32 chunks, float* tile) {
  for (UInt32 i = ThreadInBlock(); i < count * chunks; i += ThreadsOfBlock()) {
    const UInt32 key = i / chunks;
    float values[kChunk];
    ReadChunk(args, from + key * token, step, size, (i - key * chunks) * kChunk, values);
    Pack<float, kChunk> pack;
    TUNABLEOP_UNROLL
    for (UInt32 e = 0; e < kChunk; ++e) pack.at[e] = values[e];
    StorePack(tile + i * kChunk, pack);
  }
}

// A group of keys of the tile: their scores, and what they add to the query's sum. `mask`: of the
// first of them, where there is one.
TUNABLEOP_DEVICE void Attend(const AttentionArgs& args, const Team& team, const Part& q,
                             const float* keys, const float* values, UInt32 count, Int64 mask,
                             Query& query) {
  const UInt32 chunks = (args.size + kChunk - 1) / kChunk;
  float scores[kGroup];
  TUNABLEOP_UNROLL
  for (UInt32 u = 0; u < kGroup; ++u) scores[u] = 0.0F;
  TUNABLEOP_UNROLL
  for (UInt32 j = 0; j < kChunks; ++j) {
    const UInt32 c = team.lane + team.lanes * j;
    if (c >= chunks) break;
    TUNABLEOP_UNROLL
    for (UInt32 u = 0; u < kGroup; ++u) {
      if (u >= count) break;
      const auto pack = LoadPack<float, kChunk>(keys + (u * chunks + c) * kChunk);
      TUNABLEOP_UNROLL
      for (UInt32 e = 0; e < kChunk; ++e) scores[u] += q.at[j][e] * pack.at[e];
    }
  }
  float most = query.most;
  TUNABLEOP_UNROLL
  for (UInt32 u = 0; u < kGroup; ++u) {
    for (UInt32 offset = team.inner >> 1; offset != 0; offset >>= 1) {
      scores[u] += ShuffleXor(scores[u], offset, team.inner);
    }
    if (args.cap != 0.0F) scores[u] = args.cap * Tanh(scores[u] / args.cap);
    if (u >= count) {
      scores[u] = -Infinity();
    } else if (args.mask != nullptr) {
      scores[u] = Masked(args, scores[u], mask + u * args.mask_step);
    }
    most = Largest::Of(most, scores[u]);
  }
  if (most == -Infinity()) return;  // nothing counts so far
  const float factor = Exp(query.most - most);
  query.most = most;
  query.weight *= factor;
  TUNABLEOP_UNROLL
  for (UInt32 u = 0; u < kGroup; ++u) {
    scores[u] = Exp(scores[u] - most);
    query.weight += scores[u];
  }
  TUNABLEOP_UNROLL
  for (UInt32 j = 0; j < kChunks; ++j) {
    const UInt32 c = team.lane + team.lanes * j;
    if (c >= chunks) break;
    TUNABLEOP_UNROLL
    for (UInt32 e = 0; e < kChunk; ++e) query.sum.at[j][e] *= factor;
    TUNABLEOP_UNROLL
    for (UInt32 u = 0; u < kGroup; ++u) {
      if (u >= count) break;
      const auto pack = LoadPack<float, kChunk>(values + (u * chunks + c) * kChunk);
      TUNABLEOP_UNROLL
      for (UInt32 e = 0; e < kChunk; ++e) query.sum.at[j][e] += scores[u] * pack.at[e];
    }
  }
}

// What other teams found of the same query, each of them at `tile`, one after another.
TUNABLEOP_DEVICE void Merge(const Team& team, UInt32 chunks, UInt32 others, const float* tile,
                            const float* statistics, Query& query) {
  float most = -Infinity();
  for (UInt32 s = 0; s < others; ++s) most = Largest::Of(most, statistics[s * 2]);
  query.weight = 0.0F;
  TUNABLEOP_UNROLL
  for (UInt32 j = 0; j < kChunks; ++j) {
    TUNABLEOP_UNROLL
    for (UInt32 e = 0; e < kChunk; ++e) query.sum.at[j][e] = 0.0F;
  }
  query.most = most;
  if (most == -Infinity()) return;
  for (UInt32 s = 0; s < others; ++s) {
    const float factor = Exp(statistics[s * 2] - most);
    query.weight += statistics[s * 2 + 1] * factor;
    TUNABLEOP_UNROLL
    for (UInt32 j = 0; j < kChunks; ++j) {
      const UInt32 c = team.lane + team.lanes * j;
      if (c >= chunks) break;
      TUNABLEOP_UNROLL
      for (UInt32 e = 0; e < kChunk; ++e) {
        query.sum.at[j][e] += factor * tile[(s * chunks + c) * kChunk + e];
      }
    }
  }
}

TUNABLEOP_DEVICE void WriteOut(const AttentionArgs& args, const Team& team, const Query& query,
                               T* out) {
  const float weight = query.weight < args.least_weight ? args.least_weight : query.weight;
  TUNABLEOP_UNROLL
  for (UInt32 j = 0; j < kChunks; ++j) {
    const UInt32 first = (team.lane + team.lanes * j) * kChunk;
    TUNABLEOP_UNROLL
    for (UInt32 e = 0; e < kChunk; ++e) {
      if (first + e < args.value_size) {
        out[first + e] = Number<T>::Write(query.sum.at[j][e] / weight);
      }
    }
  }
}

// What a part of the keys gave, for attention_merge.
TUNABLEOP_DEVICE void WritePartial(const AttentionArgs& args, const Team& team, const Query& query,
                                   UInt32 split, Int64 row) {
  float* const sum = PartialSum(args, split, row);
  TUNABLEOP_UNROLL
  for (UInt32 j = 0; j < kChunks; ++j) {
    const UInt32 first = (team.lane + team.lanes * j) * kChunk;
    TUNABLEOP_UNROLL
    for (UInt32 e = 0; e < kChunk; ++e) {
      if (first + e < args.size) sum[first + e] = query.sum.at[j][e];
    }
  }
  if (team.lane != 0) return;
  float* const weight = PartialWeight(args, split, row);
  weight[0] = query.most;
  weight[1] = query.weight;
}

// A block's part of a head.
struct Place {
  UInt32 split;
  UInt32 batch;
  UInt32 head;
  UInt32 query;  // of this team
  UInt32 begin;  // of the keys that the block goes over
  UInt32 end;
  UInt32 seen;  // where those end that this team's query sees
};

TUNABLEOP_DEVICE Place PlaceOf(const AttentionArgs& args, UInt32 number, UInt32 blocks,
                               UInt32 in_block, UInt32 own) {
  Place at;
  const UInt32 part = number / blocks;
  const UInt32 first_query = (number - part * blocks) * in_block;
  const UInt32 above = part / args.splits;
  at.split = part - above * args.splits;
  at.batch = above / args.heads;
  at.head = above - at.batch * args.heads;
  at.query = first_query + own;
  const Keys keys = KeysOf(args, at.batch);
  at.begin = at.split * args.split_keys;
  at.end = SeenBy(args, keys, first_query + in_block - 1);
  at.seen = SeenBy(args, keys, at.query);
  if (args.splits > 1) {
    const UInt32 part_end = at.begin + args.split_keys;
    at.end = at.end < part_end ? at.end : part_end;
    at.seen = at.seen < part_end ? at.seen : part_end;
  }
  return at;
}

TUNABLEOP_DEVICE void RunPlain(const AttentionArgs& args) {
  alignas(16) TUNABLEOP_SHARED float tiles[2][kTileNumbers];
  TUNABLEOP_SHARED float statistics[kMostThreads * 2];
  const Team team = TeamOf(args.lanes);
  const UInt32 chunks = (args.size + kChunk - 1) / kChunk;
  if (chunks > team.lanes * kChunks) return;  // such a block was not asked for
  const UInt32 teams = ThreadsOfBlock() / team.lanes;
  const UInt32 own = ThreadInBlock() / team.lanes;
  const bool merges = teams % args.team_split == 0 && teams * chunks * kChunk <= 2 * kTileNumbers;
  const UInt32 split = merges ? args.team_split : 1;
  const UInt32 in_block = teams / split;  // queries
  const UInt32 blocks = (args.queries + in_block - 1) / in_block;
  const UInt32 tile_keys = kTileNumbers / (chunks * kChunk);
  const UInt32 count = blocks * args.splits * args.heads * args.batches;
  for (UInt32 number = BlockX(); number < count; number += BlocksX()) {
    const Place at = PlaceOf(args, number, blocks, in_block, own / split);
    const bool active = at.query < args.queries;
    Part q;
    Query query;
    query.most = -Infinity();
    query.weight = 0.0F;
    if (args.has_sinks != 0 && at.split == 0 && own % split == 0) {
      query.most = args.sinks == nullptr
                       ? 0.0F
                       : Number<T>::Read(static_cast<const T*>(args.sinks)[at.head]);
      query.weight = 1.0F;
    }
    const T* const from = static_cast<const T*>(args.q) + at.batch * args.q_at.batch +
                          at.query * args.q_at.token + at.head * args.q_at.head;
    TUNABLEOP_UNROLL
    for (UInt32 j = 0; j < kChunks; ++j) {
      const UInt32 c = team.lane + team.lanes * j;
      TUNABLEOP_UNROLL
      for (UInt32 e = 0; e < kChunk; ++e) q.at[j][e] = query.sum.at[j][e] = 0.0F;
      if (!active || c >= chunks) continue;
      ReadChunk(args, from, 1, args.key_size, c * kChunk, q.at[j]);
      TUNABLEOP_UNROLL
      for (UInt32 e = 0; e < kChunk; ++e) q.at[j][e] *= args.scale;
    }
    const UInt32 kv_head = at.head / args.sharing;
    const T* const k =
        static_cast<const T*>(args.k) + at.batch * args.k_at.batch + kv_head * args.k_at.head;
    const T* const v =
        static_cast<const T*>(args.v) + at.batch * args.v_at.batch + kv_head * args.v_at.head;
    const Int64 mask =
        at.batch * args.mask_at.batch + at.head * args.mask_at.head + at.query * args.mask_at.token;

    for (UInt32 first = at.begin; first < at.end; first += tile_keys) {
      const UInt32 here = at.end - first < tile_keys ? at.end - first : tile_keys;
      SyncBlock();  // what was there before has been read
      LoadTile(args, k + first * args.k_at.token, args.k_at.token, args.k_step, args.key_size, here,
               chunks, tiles[0]);
      LoadTile(args, v + first * args.v_at.token, args.v_at.token, 1, args.value_size, here, chunks,
               tiles[1]);
      SyncBlock();
      if (!active || at.seen <= first) continue;
      const UInt32 seen = at.seen - first < here ? at.seen - first : here;
      for (UInt32 g = own % split * kGroup; g < seen; g += split * kGroup) {
        const UInt32 offset = g * chunks * kChunk;
        Attend(args, team, q, tiles[0] + offset, tiles[1] + offset,
               seen - g < kGroup ? seen - g : kGroup, mask + (first + g) * args.mask_step, query);
      }
    }

    if (split > 1) {
      float* const mine = &tiles[0][0] + own * chunks * kChunk;
      SyncBlock();
      TUNABLEOP_UNROLL
      for (UInt32 j = 0; j < kChunks; ++j) {
        const UInt32 c = team.lane + team.lanes * j;
        if (c >= chunks) break;
        TUNABLEOP_UNROLL
        for (UInt32 e = 0; e < kChunk; ++e) mine[c * kChunk + e] = query.sum.at[j][e];
      }
      if (team.lane == 0) {
        statistics[own * 2] = query.most;
        statistics[own * 2 + 1] = query.weight;
      }
      SyncBlock();
      if (own % split == 0) Merge(team, chunks, split, mine, statistics + own * 2, query);
    }
    if (!active || own % split != 0) continue;
    if (args.partial != nullptr) {
      const Int64 row =
          (static_cast<Int64>(at.batch) * args.heads + at.head) * args.queries + at.query;
      WritePartial(args, team, query, at.split, row);
    } else {
      WriteOut(args, team, query,
               static_cast<T*>(args.out) + at.batch * args.out_at.batch +
                   at.query * args.out_at.token + at.head * args.out_at.head);
    }
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
