// Reading and writing elements: packs of them by one access, and where they are.
#pragma once

#include "kernels/portable.h"

namespace tunableop::device {

// Elements that are read or written by one access, 16 bytes at most.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T at[kCount];
};

// How many elements of the wider of the two go into 16 bytes.
template <class A, class B = A>
constexpr int kPackOf = 16 / static_cast<int>(sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B));

#ifdef TUNABLEOP_ON_HOST
template <class T, int kCount>
TUNABLEOP_DEVICE Pack<T, kCount> LoadPack(const T* from) {
  return *reinterpret_cast<const Pack<T, kCount>*>(from);
}
template <class T, int kCount>
TUNABLEOP_DEVICE void StorePack(T* to, const Pack<T, kCount>& pack) {
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
}
#else
// A vector of the compiler's own: it takes a struct apart, and writes its elements one by one
// (nvrtc 13: eight stores of 2 bytes, and three times the time).
template <int kBytes>
struct Words {
  using Type = unsigned char;
};
template <>
struct Words<2> {
  using Type = unsigned short;
};
template <>
struct Words<4> {
  using Type = unsigned int;
};
template <>
struct Words<8> {
  using Type = uint2;
};
template <>
struct Words<16> {
  using Type = uint4;
};
template <class W>
TUNABLEOP_DEVICE void StoreWord(W* to, W word) {
  *to = word;
}
#ifdef TUNABLEOP_ON_CUDA  // as an instruction that nothing can be taken out of
TUNABLEOP_DEVICE void StoreWord(uint2* to, uint2 word) {
  asm volatile("st.v2.u32 [%0], {%1, %2};" : : "l"(to), "r"(word.x), "r"(word.y) : "memory");
}
TUNABLEOP_DEVICE void StoreWord(uint4* to, uint4 word) {
  asm volatile("st.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "r"(word.x), "r"(word.y), "r"(word.z), "r"(word.w)
               : "memory");
}
#endif
template <class T, int kCount>
union PackedWords {
  using Word = typename Words<sizeof(T) * kCount>::Type;
  __device__ PackedWords() {}
  Pack<T, kCount> pack;
  Word word;
};
template <class T, int kCount>
TUNABLEOP_DEVICE Pack<T, kCount> LoadPack(const T* from) {
  PackedWords<T, kCount> both;
  both.word = *reinterpret_cast<const typename PackedWords<T, kCount>::Word*>(from);
  return both.pack;
}
template <class T, int kCount>
TUNABLEOP_DEVICE void StorePack(T* to, const Pack<T, kCount>& pack) {
  PackedWords<T, kCount> both;
  both.pack = pack;
  StoreWord(reinterpret_cast<typename PackedWords<T, kCount>::Word*>(to), both.word);
}
#endif

// --- Indices -------------------------------------------------------------------------------------

TUNABLEOP_DEVICE UInt32 Quotient(UInt32 n, const Divisor& by) {
  return (HighProduct(n, by.multiplier) + n) >> by.shift;
}
// Where the index is only sometimes narrow: `plain` is the same divisor.
TUNABLEOP_DEVICE UInt32 Quotient(UInt32 n, const Divisor& by, Int64) { return Quotient(n, by); }
TUNABLEOP_DEVICE UInt64 Quotient(UInt64 n, const Divisor&, Int64 plain) {
  return n / static_cast<UInt64>(plain);
}
// The offsets of every operand at a linear index. The loop has a constant end so that no argument
// is indexed by what is only known at run time: the arguments would be copied to slow memory for
// it.
template <int kOperands>
TUNABLEOP_DEVICE void OffsetsOf(const Strided<kOperands>& shape, UInt32 linear,
                                Int32 (&offsets)[kOperands]) {
  for (int n = 0; n < kOperands; ++n) offsets[n] = 0;
  TUNABLEOP_UNROLL
  for (int d = 0; d < kMaxRank; ++d) {
    if (static_cast<UInt32>(d) >= shape.rank) break;
    UInt32 within = linear;
    if (static_cast<UInt32>(d) + 1 < shape.rank) {
      linear = Quotient(linear, shape.dims[d]);
      within -= linear * shape.dims[d].divisor;
    }
    TUNABLEOP_UNROLL
    for (int n = 0; n < kOperands; ++n) {
      offsets[n] += static_cast<Int32>(within) * shape.strides[n][d];
    }
  }
}

// Slabs go over the y dimension of the grid.
template <int kOperands>
TUNABLEOP_DEVICE Int64 SlabsOf(const Strided<kOperands>& shape) {
  return shape.count <= shape.slab ? (shape.count > 0 ? 1 : 0)
                                   : (shape.count + shape.slab - 1) / shape.slab;
}
template <int kOperands>
TUNABLEOP_DEVICE UInt32 CountOf(const Strided<kOperands>& shape, Int64 slab) {
  const Int64 left = shape.count - slab * shape.slab;
  return static_cast<UInt32>(left < shape.slab ? left : shape.slab);
}

}  // namespace tunableop::device
