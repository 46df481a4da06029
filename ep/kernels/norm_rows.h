// Normalising rows, wherever they come from: for families whose T0 is the type of everything.
//
// A Row adds a pack of its sources to z (Add) or all packs of one thread (AddAll), and knows where
// it goes: `out`, and `sum`, which may be null. Args have gamma and beta, each of one row or null,
// `columns` and `epsilon`.
#include "kernels/team.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;
using Math = MathOf<T>;

// The number of a thread's pack of a row that is kept in registers.
TUNABLEOP_DEVICE UInt32 KeptPack(const Team& team, int step) {
  return static_cast<UInt32>(step) * team.lanes + team.lane;
}

template <int kPack>
TUNABLEOP_DEVICE void AddPack(const T* from, Int64 at, Math (&to)[kPack]) {
  const Pack<T, kPack> pack = LoadPack<T, kPack>(from + at);
  TUNABLEOP_UNROLL
  for (int e = 0; e < kPack; ++e) to[e] += Number<T>::Read(pack.at[e]);
}

template <int kPack>
TUNABLEOP_DEVICE void WritePack(T* to, Int64 at, const Math (&values)[kPack]) {
  Pack<T, kPack> pack;
  TUNABLEOP_UNROLL
  for (int e = 0; e < kPack; ++e) pack.at[e] = Number<T>::Write(values[e]);
  StorePack(to + at, pack);
}

struct Statistics {
  Math mean;
  Math inverse;  // 1 / sqrt(the mean of squares + epsilon)
};

// What some columns are scaled by and added to, where there is such.
template <int kPack>
struct Scales {
  Pack<T, kPack> gamma = {};
  Pack<T, kPack> beta = {};

  template <class Args>
  TUNABLEOP_METHOD void Load(const Args& args, Int64 at) {
    if (args.gamma != nullptr) gamma = LoadPack<T, kPack>(static_cast<const T*>(args.gamma) + at);
    if (args.beta != nullptr) beta = LoadPack<T, kPack>(static_cast<const T*>(args.beta) + at);
  }
};

template <int kPack, class Args, class Row>
TUNABLEOP_DEVICE void WriteResult(const Args& args, const Row& row, Int64 at, const Statistics& of,
                                  const Math (&z)[kPack], const Scales<kPack>& scales) {
  Math result[kPack];
  TUNABLEOP_UNROLL
  for (int e = 0; e < kPack; ++e) {
    result[e] = (z[e] - of.mean) * of.inverse;
    if (args.gamma != nullptr) result[e] *= Number<T>::Read(scales.gamma.at[e]);
    if (args.beta != nullptr) result[e] += Number<T>::Read(scales.beta.at[e]);
  }
  WritePack<kPack>(row.out, at, result);
}

template <bool kMean, class Args>
TUNABLEOP_DEVICE Math MeanOf(const Args& args, const Team& team, Math sum) {
  return kMean ? Combine<Sum>(team, sum) / static_cast<Math>(args.columns) : static_cast<Math>(0);
}

template <class Args>
TUNABLEOP_DEVICE Math InverseOf(const Args& args, const Team& team, Math squares) {
  return static_cast<Math>(1) / Sqrt(Combine<Sum>(team, squares) / static_cast<Math>(args.columns) +
                                     static_cast<Math>(args.epsilon));
}

// A row that fits into the registers of its threads: it is read once.
template <bool kMean, int kPack, class Args, class Row>
TUNABLEOP_DEVICE Statistics NormKept(const Args& args, const Team& team, const Row& row) {
  constexpr int kSteps = kRowSteps<kPack>;
  const UInt32 packs = static_cast<UInt32>(args.columns) / kPack;
  Math z[kSteps][kPack];
  TUNABLEOP_UNROLL
  for (int s = 0; s < kSteps; ++s) {
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) z[s][e] = 0;
  }
  row.AddAll(team, packs, z);
  // The first come while the row is summed up; all of them would take too many registers.
  Scales<kPack> scales;
  if (team.lane < packs) scales.Load(args, static_cast<Int64>(team.lane) * kPack);
  Math sum = 0;
  TUNABLEOP_UNROLL
  for (int s = 0; s < kSteps; ++s) {
    const UInt32 p = KeptPack(team, s);
    if (p >= packs) break;
    if (row.sum != nullptr) WritePack<kPack>(row.sum, static_cast<Int64>(p) * kPack, z[s]);
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) sum += z[s][e];
  }
  Statistics of;
  of.mean = MeanOf<kMean>(args, team, sum);
  Math squares = 0;
  TUNABLEOP_UNROLL
  for (int s = 0; s < kSteps; ++s) {
    if (KeptPack(team, s) >= packs) break;
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) squares += (z[s][e] - of.mean) * (z[s][e] - of.mean);
  }
  of.inverse = InverseOf(args, team, squares);
  TUNABLEOP_UNROLL
  for (int s = 0; s < kSteps; ++s) {
    const UInt32 p = KeptPack(team, s);
    if (p >= packs) break;
    const Int64 at = static_cast<Int64>(p) * kPack;
    if (s > 0) scales.Load(args, at);
    WriteResult<kPack>(args, row, at, of, z[s], scales);
  }
  return of;
}

// Any row: it is read three times.
template <bool kMean, int kPack, class Args, class Row>
TUNABLEOP_DEVICE Statistics NormLong(const Args& args, const Team& team, const Row& row) {
  const Int64 first = static_cast<Int64>(team.lane) * kPack;
  const Int64 step = static_cast<Int64>(team.lanes) * kPack;
  const auto read = [&](Int64 at, Math(&z)[kPack]) {
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) z[e] = 0;
    row.Add(at, z);
  };
  Math z[kPack];
  Math sum = 0;
  for (Int64 at = first; at < args.columns; at += step) {
    read(at, z);
    if (row.sum != nullptr) WritePack<kPack>(row.sum, at, z);
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) sum += z[e];
  }
  Statistics of;
  of.mean = MeanOf<kMean>(args, team, sum);
  Math squares = 0;
  for (Int64 at = first; at < args.columns; at += step) {
    read(at, z);
    TUNABLEOP_UNROLL
    for (int e = 0; e < kPack; ++e) squares += (z[e] - of.mean) * (z[e] - of.mean);
  }
  of.inverse = InverseOf(args, team, squares);
  for (Int64 at = first; at < args.columns; at += step) {
    read(at, z);
    Scales<kPack> scales;
    scales.Load(args, at);
    WriteResult<kPack>(args, row, at, of, z, scales);
  }
  return of;
}

// `rows`: makes the Row of a number, and is told what became of it. kMean: a mean is taken off.
template <bool kMean, int kPack, class Args, class Rows>
TUNABLEOP_DEVICE void NormRows(const Args& args, const Team& team, const Rows& rows) {
  const bool kept = args.columns <= static_cast<Int64>(team.lanes) * kPack * kRowSteps<kPack>;
  for (Int64 number = team.number; number < args.rows.count; number += team.count) {
    const auto row = rows.At(number);
    const Statistics of =
        kept ? NormKept<kMean, kPack>(args, team, row) : NormLong<kMean, kPack>(args, team, row);
    if (team.lane == 0) rows.template Done<kMean>(number, of);
  }
}

template <bool kMean, class Rows, class Args>
TUNABLEOP_DEVICE void Norm(const Args& args) {
  const Team team = TeamOf(args.lanes);
  const Rows rows{args};
  if (args.packed != 0) {
    NormRows<kMean, kPackOf<T>>(args, team, rows);
  } else {
    NormRows<kMean, 1>(args, team, rows);
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
