// Embeddings: rows picked out of tables, their sum, its norm. Entries: embed_layer_norm,
// embed_rms_norm (without a mean). T0 is the type of everything but places, of which one that is
// below zero counts from the end; what lies outside counts as zeros. Sums are of floats.
#include "kernels/embed_norm_args.h"
#include "kernels/norm_rows.h"

namespace tunableop::device::TUNABLEOP_MODULE {

// Where a row of each part begins; null: it adds nothing.
struct Row {
  const T* first;
  const T* second;
  const T* third;
  T* out;
  T* sum;

  template <int kPack>
  TUNABLEOP_METHOD void Add(Int64 at, Math (&z)[kPack]) const {
    if (first != nullptr) AddPack<kPack>(first, at, z);
    if (second != nullptr) AddPack<kPack>(second, at, z);
    if (third != nullptr) AddPack<kPack>(third, at, z);
  }
  template <int kSteps, int kPack>
  TUNABLEOP_METHOD void AddAll(const Team& team, UInt32 packs, Math (&z)[kSteps][kPack]) const {
    TUNABLEOP_UNROLL
    for (int s = 0; s < kSteps; ++s) {
      const UInt32 p = KeptPack(team, s);
      if (p >= packs) break;
      Add(static_cast<Int64>(p) * kPack, z[s]);
    }
  }
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

struct Rows {
  const EmbedNormArgs& args;

  TUNABLEOP_METHOD Row At(Int64 number) const {
    Int32 at[3];
    OffsetsOf(args.rows, static_cast<UInt32>(number), at);
    const Int64 begin = number * args.columns;
    Row row;
    row.first = SourceOf(args.first, at[0], args.columns);
    row.second = SourceOf(args.second, at[1], args.columns);
    row.third = SourceOf(args.third, at[2], args.columns);
    row.out = static_cast<T*>(args.out) + begin;
    row.sum = args.sum == nullptr ? nullptr : static_cast<T*>(args.sum) + begin;
    return row;
  }
  template <bool kMean>
  TUNABLEOP_METHOD void Done(Int64, const Statistics&) const {}
};

TUNABLEOP_KERNEL(embed_layer_norm, EmbedNormArgs) { Norm<true, Rows>(args); }
TUNABLEOP_KERNEL(embed_rms_norm, EmbedNormArgs) { Norm<false, Rows>(args); }

}  // namespace tunableop::device::TUNABLEOP_MODULE
