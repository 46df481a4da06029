// NVIDIA's instructions for small matrices, from sm_80 on, as functions. Every one that speaks
// of matrices is called by all 32 threads of a warp; which thread has what of them is as the PTX
// manual says of mma.m16n8k16, mma.m16n8k8 and ldmatrix.
#pragma once

#include "kernels/access.h"

namespace tunableop::device {

TUNABLEOP_DEVICE UInt32 SharedAddress(const void* at) {
  UInt32 address;
  asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }"
      : "=r"(address)
      : "l"(at));
  return address;
}

// 16 bytes on their way to shared memory; zeros, and nothing is read, where there are none.
TUNABLEOP_DEVICE void CopyAsync(UInt32 to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(to), "l"(from), "r"(there ? 16 : 0)
               : "memory");
}
TUNABLEOP_DEVICE void CommitCopies() { asm volatile("cp.async.commit_group;" : : : "memory"); }
// Until all of this thread's have come but the last kLeft groups.
template <int kLeft>
TUNABLEOP_DEVICE void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(kLeft) : "memory");
}

// Four matrices of 8 x 8; each thread gives the address of a row: of the first one threads 0 to 7.
TUNABLEOP_DEVICE void LoadMatrices(UInt32 (&to)[4], UInt32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row));
}
TUNABLEOP_DEVICE void LoadTransposed(UInt32 (&to)[4], UInt32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row));
}

// A word of an operand as it goes into a product: a float is rounded to 10 bits of fraction.
template <class T>
TUNABLEOP_DEVICE UInt32 Ready(UInt32 word) {
  if constexpr (Alike<T, float>::kValue) {
    UInt32 rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(FloatOf(word)));
    return rounded;
  } else {
    return word;
  }
}

TUNABLEOP_DEVICE UInt32 LoadShared(UInt32 from) {
  UInt32 word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(from));
  return word;
}

// c += a b: 16 x 16 times 16 x 8; of floats 16 x 8 times 8 x 8.
template <class T>
TUNABLEOP_DEVICE void MultiplyAdd(float (&c)[4], const UInt32 (&a)[4], UInt32 b0, UInt32 b1) {
  if constexpr (Alike<T, types::f16>::kValue) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else if constexpr (Alike<T, float>::kValue) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// Two numbers in a register, the first in its low half.
template <class T>
TUNABLEOP_DEVICE UInt32 PairOf(float first, float second) {
  UInt32 pair;
  if constexpr (Alike<T, types::f16>::kValue) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  }
  return pair;
}

// To about 22 bits.
TUNABLEOP_DEVICE float PowerOfTwo(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

}  // namespace tunableop::device
