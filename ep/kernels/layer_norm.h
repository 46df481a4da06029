// Normalising rows: entries layer_norm and rms_norm (without a mean). T0 is the type of everything
// but what the rows' statistics are written to. Sums are of floats (doubles for f64).
#include "kernels/layer_norm_args.h"
#include "kernels/team.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;
using Math = MathOf<T>;

// Where a row begins.
struct Row {
  const T* x;
  const T* skip;
  T* out;
  T* sum;
};

TUNABLEOP_DEVICE Row RowAt(const LayerNormArgs& args, Int64 number, const Int32 (&at)[2]) {
  Row row;
  row.x = static_cast<const T*>(args.x) + at[0] * args.columns;
  row.skip =
      args.skip == nullptr ? nullptr : static_cast<const T*>(args.skip) + at[1] * args.columns;
  row.out = static_cast<T*>(args.out) + number * args.columns;
  row.sum = args.sum == nullptr ? nullptr : static_cast<T*>(args.sum) + number * args.columns;
  return row;
}

template <int kPack>
TUNABLEOP_DEVICE void AddPack(const T* from, Int64 at, Math (&to)[kPack]) {
  const Pack<T, kPack> pack = LoadPack<T, kPack>(from + at);
  TUNABLEOP_UNROLL
  for (int e = 0; e < kPack; ++e) to[e] += Number<T>::Read(pack.at[e]);
}

// z, from its parts.
template <int kPack>
TUNABLEOP_DEVICE void ReadPack(const LayerNormArgs& args, const Row& row, Int64 at,
                               Math (&z)[kPack]) {
  TUNABLEOP_UNROLL
  for (int e = 0; e < kPack; ++e) z[e] = 0;
  AddPack<kPack>(row.x, at, z);
  if (row.skip != nullptr) AddPack<kPack>(row.skip, at, z);
  if (args.bias != nullptr) AddPack<kPack>(static_cast<const T*>(args.bias), at, z);
}

template <int kPack>
TUNABLEOP_DEVICE void WritePack(T* to, Int64 at, const Math (&values)[kPack]) {
  Pack<T, kPack> pack;
  TUNABLEOP_UNROLL
  for (int e = 0; e < kPack; ++e) pack.at[e] = Number<T>::Write(values[e]);
  StorePack(to + at, pack);
}

// What some columns are scaled by and added to, where there is such.
template <int kPack>
struct Scales {
  Pack<T, kPack> gamma{};
  Pack<T, kPack> beta{};

  TUNABLEOP_METHOD void Load(const LayerNormArgs& args, Int64 at) {
    if (args.gamma != nullptr) gamma = LoadPack<T, kPack>(static_cast<const T*>(args.gamma) + at);
    if (args.beta != nullptr) beta = LoadPack<T, kPack>(static_cast<const T*>(args.beta) + at);
  }
};

template <int kPack>
TUNABLEOP_DEVICE void WriteResult(const LayerNormArgs& args, const Row& row, Int64 at, Math mean,
                                  Math inverse, const Math (&z)[kPack],
                                  const Scales<kPack>& scales) {
  Math result[kPack];
  TUNABLEOP_UNROLL
  for (int e = 0; e < kPack; ++e) {
    result[e] = (z[e] - mean) * inverse;
    if (args.gamma != nullptr) result[e] *= Number<T>::Read(scales.gamma.at[e]);
    if (args.beta != nullptr) result[e] += Number<T>::Read(scales.beta.at[e]);
  }
  WritePack<kPack>(row.out, at, result);
}

template <bool kMean>
TUNABLEOP_DEVICE void WriteStatistics(const LayerNormArgs& args, const Team& team, Int64 number,
                                      Math mean, Math inverse) {
  if (team.lane != 0) return;
  if (kMean && args.mean != nullptr) args.mean[number] = static_cast<float>(mean);
  if (args.inverse != nullptr) args.inverse[number] = static_cast<float>(inverse);
}

// 1 / sqrt(the mean of what was summed up + epsilon).
TUNABLEOP_DEVICE Math InverseOf(const LayerNormArgs& args, Math squares) {
  return static_cast<Math>(1) /
         Sqrt(squares / static_cast<Math>(args.columns) + static_cast<Math>(args.epsilon));
}

// What a thread keeps of one operand. Reads of all steps are under way before the first is waited
// for: what a row takes is mostly the time until they come.
template <int kPack>
struct Kept {
  static constexpr int kSteps = kRowSteps<kPack>;
  Pack<T, kPack> pack[kSteps];

  TUNABLEOP_METHOD void Load(const T* from, const Team& team, UInt32 packs) {
    TUNABLEOP_UNROLL
    for (int s = 0; s < kSteps; ++s) {
      const UInt32 p = static_cast<UInt32>(s) * team.lanes + team.lane;
      if (p < packs) pack[s] = LoadPack<T, kPack>(from + static_cast<Int64>(p) * kPack);
    }
  }
  TUNABLEOP_METHOD void AddTo(const Team& team, UInt32 packs, Math (&z)[kSteps][kPack]) const {
    TUNABLEOP_UNROLL
    for (int s = 0; s < kSteps; ++s) {
      if (static_cast<UInt32>(s) * team.lanes + team.lane >= packs) break;
      TUNABLEOP_UNROLL
      for (int e = 0; e < kPack; ++e) z[s][e] += Number<T>::Read(pack[s].at[e]);
    }
  }
};

// z of a whole row.
template <int kPack>
TUNABLEOP_DEVICE void ReadKept(const Row& row, const void* bias, const Team& team, UInt32 packs,
                               Math (&z)[kRowSteps<kPack>][kPack]) {
  Kept<kPack> x;
  Kept<kPack> skip;
  x.Load(row.x, team, packs);
  if (row.skip != nullptr) skip.Load(row.skip, team, packs);
  TUNABLEOP_UNROLL
  for (int s = 0; s < kRowSteps<kPack>; ++s) {
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) z[s][e] = 0;
  }
  x.AddTo(team, packs, z);
  if (row.skip != nullptr) skip.AddTo(team, packs, z);
  if (bias == nullptr) return;
  TUNABLEOP_UNROLL
  for (int s = 0; s < kRowSteps<kPack>; ++s) {
    const UInt32 p = static_cast<UInt32>(s) * team.lanes + team.lane;
    if (p >= packs) break;
    AddPack<kPack>(static_cast<const T*>(bias), static_cast<Int64>(p) * kPack, z[s]);
  }
}

// A row that fits into the registers of its threads: it is read once.
template <bool kMean, int kPack>
TUNABLEOP_DEVICE void RunKept(const LayerNormArgs& args, const Team& team, const Row& row,
                              Int64 number) {
  constexpr int kSteps = kRowSteps<kPack>;
  const UInt32 packs = static_cast<UInt32>(args.columns) / kPack;
  Math z[kSteps][kPack];
  ReadKept<kPack>(row, args.bias, team, packs, z);
  // The first come while the row is summed up; all of them would take too many registers.
  Scales<kPack> scales;
  if (team.lane < packs) scales.Load(args, static_cast<Int64>(team.lane) * kPack);
  Math sum = 0;
  TUNABLEOP_UNROLL
  for (int s = 0; s < kSteps; ++s) {
    const UInt32 p = static_cast<UInt32>(s) * team.lanes + team.lane;
    if (p >= packs) break;
    if (row.sum != nullptr) WritePack<kPack>(row.sum, static_cast<Int64>(p) * kPack, z[s]);
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
    const Int64 at = static_cast<Int64>(p) * kPack;
    if (s > 0) scales.Load(args, at);
    WriteResult<kPack>(args, row, at, mean, inverse, z[s], scales);
  }
  WriteStatistics<kMean>(args, team, number, mean, inverse);
}

// Any row: it is read three times.
template <bool kMean, int kPack>
TUNABLEOP_DEVICE void RunLong(const LayerNormArgs& args, const Team& team, const Row& row,
                              Int64 number) {
  const Int64 first = static_cast<Int64>(team.lane) * kPack;
  const Int64 step = static_cast<Int64>(team.lanes) * kPack;
  Math z[kPack];
  Math sum = 0;
  for (Int64 at = first; at < args.columns; at += step) {
    ReadPack<kPack>(args, row, at, z);
    if (row.sum != nullptr) WritePack<kPack>(row.sum, at, z);
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) sum += z[e];
  }
  const Math mean =
      kMean ? Combine<Sum>(team, sum) / static_cast<Math>(args.columns) : static_cast<Math>(0);
  Math squares = 0;
  for (Int64 at = first; at < args.columns; at += step) {
    ReadPack<kPack>(args, row, at, z);
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) squares += (z[e] - mean) * (z[e] - mean);
  }
  const Math inverse = InverseOf(args, Combine<Sum>(team, squares));
  for (Int64 at = first; at < args.columns; at += step) {
    ReadPack<kPack>(args, row, at, z);
    Scales<kPack> scales;
    scales.Load(args, at);
    WriteResult<kPack>(args, row, at, mean, inverse, z, scales);
  }
  WriteStatistics<kMean>(args, team, number, mean, inverse);
}

template <bool kMean, int kPack>
TUNABLEOP_DEVICE void RunRows(const LayerNormArgs& args, const Team& team) {
  const bool kept = args.columns <= static_cast<Int64>(team.lanes) * kPack * kRowSteps<kPack>;
  for (Int64 number = team.number; number < args.rows.count; number += team.count) {
    Int32 at[2];
    OffsetsOf(args.rows, static_cast<UInt32>(number), at);
    const Row row = RowAt(args, number, at);
    if (kept) {
      RunKept<kMean, kPack>(args, team, row, number);
    } else {
      RunLong<kMean, kPack>(args, team, row, number);
    }
  }
}

template <bool kMean>
TUNABLEOP_DEVICE void Run(const LayerNormArgs& args) {
  const Team team = TeamOf(args.lanes);
  if (args.packed != 0) {
    RunRows<kMean, kPackOf<T>>(args, team);
  } else {
    RunRows<kMean, 1>(args, team);
  }
}

TUNABLEOP_KERNEL(layer_norm, LayerNormArgs) { Run<true>(args); }
TUNABLEOP_KERNEL(rms_norm, LayerNormArgs) { Run<false>(args); }

}  // namespace tunableop::device::TUNABLEOP_MODULE
