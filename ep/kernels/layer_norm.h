// Normalising rows: entries layer_norm and rms_norm (without a mean). T0 is the type of everything
// but what the rows' statistics are written to. Sums are of floats (doubles for f64).
#include "kernels/layer_norm_args.h"
#include "kernels/norm_rows.h"

namespace tunableop::device::TUNABLEOP_MODULE {

// What a thread keeps of one operand. Reads of all steps are under way before the first is waited
// for: what a row takes is mostly the time until they come.
template <int kSteps, int kPack>
struct Kept {
  Pack<T, kPack> pack[kSteps];

  TUNABLEOP_METHOD void Load(const T* from, const Team& team, UInt32 packs) {
    TUNABLEOP_UNROLL
    for (int s = 0; s < kSteps; ++s) {
      const UInt32 p = KeptPack(team, s);
      if (p < packs) pack[s] = LoadPack<T, kPack>(from + static_cast<Int64>(p) * kPack);
    }
  }
  TUNABLEOP_METHOD void AddTo(const Team& team, UInt32 packs, Math (&z)[kSteps][kPack]) const {
    TUNABLEOP_UNROLL
    for (int s = 0; s < kSteps; ++s) {
      if (KeptPack(team, s) >= packs) break;
      TUNABLEOP_UNROLL
      for (int e = 0; e < kPack; ++e) z[s][e] += Number<T>::Read(pack[s].at[e]);
    }
  }
};

// Where a row begins; null: it adds nothing.
struct Row {
  const LayerNormArgs& args;
  const T* x;
  const T* skip;
  T* out;
  T* sum;

  template <int kPack>
  TUNABLEOP_METHOD void Add(Int64 at, Math (&z)[kPack]) const {
    AddPack<kPack>(x, at, z);
    if (skip != nullptr) AddPack<kPack>(skip, at, z);
    if (args.bias != nullptr) AddPack<kPack>(static_cast<const T*>(args.bias), at, z);
  }
  template <int kSteps, int kPack>
  TUNABLEOP_METHOD void AddAll(const Team& team, UInt32 packs, Math (&z)[kSteps][kPack]) const {
    Kept<kSteps, kPack> own;
    Kept<kSteps, kPack> other;
    own.Load(x, team, packs);
    if (skip != nullptr) other.Load(skip, team, packs);
    own.AddTo(team, packs, z);
    if (skip != nullptr) other.AddTo(team, packs, z);
    if (args.bias == nullptr) return;
    TUNABLEOP_UNROLL
    for (int s = 0; s < kSteps; ++s) {
      const UInt32 p = KeptPack(team, s);
      if (p >= packs) break;
      AddPack<kPack>(static_cast<const T*>(args.bias), static_cast<Int64>(p) * kPack, z[s]);
    }
  }
};

struct Rows {
  const LayerNormArgs& args;

  TUNABLEOP_METHOD Row At(Int64 number) const {
    Int32 at[2];
    OffsetsOf(args.rows, static_cast<UInt32>(number), at);
    const Int64 begin = number * args.columns;
    return {
        args, static_cast<const T*>(args.x) + at[0] * args.columns,
        args.skip == nullptr ? nullptr : static_cast<const T*>(args.skip) + at[1] * args.columns,
        static_cast<T*>(args.out) + begin,
        args.sum == nullptr ? nullptr : static_cast<T*>(args.sum) + begin};
  }
  template <bool kMean>
  TUNABLEOP_METHOD void Done(Int64 number, const Statistics& of) const {
    if (kMean && args.mean != nullptr) args.mean[number] = static_cast<float>(of.mean);
    if (args.inverse != nullptr) args.inverse[number] = static_cast<float>(of.inverse);
  }
};

TUNABLEOP_KERNEL(layer_norm, LayerNormArgs) { Norm<true, Rows>(args); }
TUNABLEOP_KERNEL(rms_norm, LayerNormArgs) { Norm<false, Rows>(args); }

}  // namespace tunableop::device::TUNABLEOP_MODULE
