// Embeddings: rows picked out of tables, their sum, its norm. Entries: embed_layer_norm,
// embed_rms_norm (without a mean). T0 is the type of everything but places, of which one that is
// below zero counts from the end; what lies outside counts as zeros. Sums are of floats.
#include "kernels/embed_norm_args.h"
#include "kernels/team.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;
using Math = MathOf<T>;

// Where a row of each part begins; null: it adds nothing.
struct Sources {
  const T* first;
  const T* second;
  const T* third;
};

TUNABLEOP_DEVICE const T* SourceOf(const EmbedPart& part, Int64 at, Int64 columns) {
  if (part.table == nullptr) return nullptr;
  Int64 row = at;
  if (part.places != nullptr) {
    row = part.narrow != 0 ? static_cast<const Int32*>(part.places)[at]
                           : static_cast<const Int64*>(part.places)[at];
    if (row < 0) row += part.rows;
    if (row < 0 || row >= part.rows) return nullptr;
  }
  return static_cast<const T*>(part.table) + row * columns;
}

template <int kPack>
TUNABLEOP_DEVICE void AddPack(const T* from, Int64 at, Math (&to)[kPack]) {
  if (from == nullptr) return;
  const Pack<T, kPack> pack = LoadPack<T, kPack>(from + at);
  TUNABLEOP_UNROLL
  for (int e = 0; e < kPack; ++e) to[e] += Number<T>::Read(pack.at[e]);
}

template <int kPack>
TUNABLEOP_DEVICE void ReadPack(const Sources& from, Int64 at, Math (&z)[kPack]) {
  TUNABLEOP_UNROLL
  for (int e = 0; e < kPack; ++e) z[e] = 0;
  AddPack<kPack>(from.first, at, z);
  AddPack<kPack>(from.second, at, z);
  AddPack<kPack>(from.third, at, z);
}

template <int kPack>
TUNABLEOP_DEVICE void WritePack(void* rows, Int64 at, const Math (&values)[kPack]) {
  if (rows == nullptr) return;
  Pack<T, kPack> pack;
  TUNABLEOP_UNROLL
  for (int e = 0; e < kPack; ++e) pack.at[e] = Number<T>::Write(values[e]);
  StorePack(static_cast<T*>(rows) + at, pack);
}

template <int kPack>
TUNABLEOP_DEVICE void WriteResult(const EmbedNormArgs& args, Int64 row, Int64 at, Math mean,
                                  Math inverse, const Math (&z)[kPack]) {
  Math gamma[kPack];
  Math result[kPack];
  TUNABLEOP_UNROLL
  for (int e = 0; e < kPack; ++e) gamma[e] = result[e] = 0;
  AddPack<kPack>(static_cast<const T*>(args.gamma), at, gamma);
  AddPack<kPack>(static_cast<const T*>(args.beta), at, result);
  TUNABLEOP_UNROLL
  for (int e = 0; e < kPack; ++e) result[e] += (z[e] - mean) * inverse * gamma[e];
  WritePack<kPack>(args.out, row * args.columns + at, result);
}

TUNABLEOP_DEVICE Math InverseOf(const EmbedNormArgs& args, Math squares) {
  return static_cast<Math>(1) /
         Sqrt(squares / static_cast<Math>(args.columns) + static_cast<Math>(args.epsilon));
}

// A row that fits into the registers of its threads: it is read once.
template <bool kMean, int kPack>
TUNABLEOP_DEVICE void RunKept(const EmbedNormArgs& args, const Team& team, const Sources& from,
                              Int64 row) {
  constexpr int kSteps = kRowSteps<kPack>;
  const UInt32 packs = static_cast<UInt32>(args.columns) / kPack;
  Math z[kSteps][kPack];
  Math sum = 0;
  TUNABLEOP_UNROLL
  for (int s = 0; s < kSteps; ++s) {
    const UInt32 p = static_cast<UInt32>(s) * team.lanes + team.lane;
    if (p >= packs) break;
    ReadPack<kPack>(from, static_cast<Int64>(p) * kPack, z[s]);
    WritePack<kPack>(args.sum, row * args.columns + static_cast<Int64>(p) * kPack, z[s]);
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) sum += z[s][e];
  }
  const Math mean =
      kMean ? Combine<Sum>(team, sum) / static_cast<Math>(args.columns) : static_cast<Math>(0);
  Math squares = 0;
  TUNABLEOP_UNROLL
  for (int s = 0; s < kSteps; ++s) {
    if (static_cast<UInt32>(s) * team.lanes + team.lane >= packs) break;
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) squares += (z[s][e] - mean) * (z[s][e] - mean);
  }
  const Math inverse = InverseOf(args, Combine<Sum>(team, squares));
  TUNABLEOP_UNROLL
  for (int s = 0; s < kSteps; ++s) {
    const UInt32 p = static_cast<UInt32>(s) * team.lanes + team.lane;
    if (p >= packs) break;
    WriteResult<kPack>(args, row, static_cast<Int64>(p) * kPack, mean, inverse, z[s]);
  }
}

// Any row: it is read three times.
template <bool kMean, int kPack>
TUNABLEOP_DEVICE void RunLong(const EmbedNormArgs& args, const Team& team, const Sources& from,
                              Int64 row) {
  const Int64 first = static_cast<Int64>(team.lane) * kPack;
  const Int64 step = static_cast<Int64>(team.lanes) * kPack;
  Math z[kPack];
  Math sum = 0;
  for (Int64 at = first; at < args.columns; at += step) {
    ReadPack<kPack>(from, at, z);
    WritePack<kPack>(args.sum, row * args.columns + at, z);
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) sum += z[e];
  }
  const Math mean =
      kMean ? Combine<Sum>(team, sum) / static_cast<Math>(args.columns) : static_cast<Math>(0);
  Math squares = 0;
  for (Int64 at = first; at < args.columns; at += step) {
    ReadPack<kPack>(from, at, z);
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) squares += (z[e] - mean) * (z[e] - mean);
  }
  const Math inverse = InverseOf(args, Combine<Sum>(team, squares));
  for (Int64 at = first; at < args.columns; at += step) {
    ReadPack<kPack>(from, at, z);
    WriteResult<kPack>(args, row, at, mean, inverse, z);
  }
}

template <bool kMean, int kPack>
TUNABLEOP_DEVICE void RunRows(const EmbedNormArgs& args, const Team& team) {
  const bool kept = args.columns <= static_cast<Int64>(team.lanes) * kPack * kRowSteps<kPack>;
  for (Int64 row = team.number; row < args.rows.count; row += team.count) {
    Int32 at[3];
    OffsetsOf(args.rows, static_cast<UInt32>(row), at);
    const Sources from{SourceOf(args.first, at[0], args.columns),
                       SourceOf(args.second, at[1], args.columns),
                       SourceOf(args.third, at[2], args.columns)};
    if (kept) {
      RunKept<kMean, kPack>(args, team, from, row);
    } else {
      RunLong<kMean, kPack>(args, team, from, row);
    }
  }
}

template <bool kMean>
TUNABLEOP_DEVICE void Run(const EmbedNormArgs& args) {
  const Team team = TeamOf(args.lanes);
  if (args.packed != 0) {
    RunRows<kMean, kPackOf<T>>(args, team);
  } else {
    RunRows<kMean, 1>(args, team);
  }
}

TUNABLEOP_KERNEL(embed_layer_norm, EmbedNormArgs) { Run<true>(args); }
TUNABLEOP_KERNEL(embed_rms_norm, EmbedNormArgs) { Run<false>(args); }

}  // namespace tunableop::device::TUNABLEOP_MODULE
