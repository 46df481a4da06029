// What differs between nvrtc, hiprtc and the host, for the families of kernels beside this file.
//
// No system header may be included on a device: users have none. Halves are 16-bit storage there
// and everywhere; all arithmetic on them is done in float. Types and functions here are plain and
// few: this text is compiled once for each module that a session needs.
//
// A family is compiled for up to two element types, TUNABLEOP_T0 and TUNABLEOP_T1, and has no
// #pragma once: the host includes it for every pair. Its kernels are right for any grid and any
// block of at most 512 threads.
#pragma once

#include "kernels/args_common.h"

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
#define TUNABLEOP_ON_CUDA 1
#elif defined(__HIPCC_RTC__) || defined(__HIPCC__)
#define TUNABLEOP_ON_HIP 1
#else
#define TUNABLEOP_ON_HOST 1
#include <cmath>
#include <cstring>
#endif

#ifdef TUNABLEOP_ON_HOST
#include "kernels/host_module.h"
#define TUNABLEOP_DEVICE [[maybe_unused]] static inline
#define TUNABLEOP_MEMBER static inline
#define TUNABLEOP_METHOD inline
#define TUNABLEOP_OUTLINE [[maybe_unused]] static
#define TUNABLEOP_SHARED static thread_local
#define TUNABLEOP_UNROLL
#ifndef TUNABLEOP_MODULE
#define TUNABLEOP_MODULE module
#endif
#else
#define TUNABLEOP_DEVICE __device__ __forceinline__
#define TUNABLEOP_MEMBER static __device__ __forceinline__
#define TUNABLEOP_METHOD __device__ __forceinline__
#define TUNABLEOP_OUTLINE static __device__ __noinline__  // what would take long to compile inline
#define TUNABLEOP_SHARED __shared__
#define TUNABLEOP_UNROLL _Pragma("unroll")
#define TUNABLEOP_MODULE module
#define TUNABLEOP_KERNEL(name, Args) \
  extern "C" __global__ void __launch_bounds__(512) name(const Args args)
#endif

#ifndef TUNABLEOP_T0
#define TUNABLEOP_T0 f32
#endif
#ifndef TUNABLEOP_T1
#define TUNABLEOP_T1 TUNABLEOP_T0
#endif

// For #if: TUNABLEOP_IS(TUNABLEOP_T1, b). Its second argument is a name as it stands.
#define TUNABLEOP_CODE_f32 1
#define TUNABLEOP_CODE_f16 2
#define TUNABLEOP_CODE_bf16 3
#define TUNABLEOP_CODE_f64 4
#define TUNABLEOP_CODE_i32 5
#define TUNABLEOP_CODE_i64 6
#define TUNABLEOP_CODE_u8 7
#define TUNABLEOP_CODE_b 8
#define TUNABLEOP_CODE_w1 9
#define TUNABLEOP_CODE_w2 10
#define TUNABLEOP_CODE_w4 11
#define TUNABLEOP_CODE_w8 12
#define TUNABLEOP_CODE_OF(type) TUNABLEOP_CODE_##type
#define TUNABLEOP_CODE(type) TUNABLEOP_CODE_OF(type)
#define TUNABLEOP_IS(type, name) (TUNABLEOP_CODE(type) == TUNABLEOP_CODE_##name)
#define TUNABLEOP_IS_FLOATING(type) (TUNABLEOP_CODE(type) <= TUNABLEOP_CODE_f64)

namespace tunableop::device {

// The element types, under the names that modules are asked for by.
namespace types {
using f32 = float;
using f64 = double;
using i32 = int;
using i64 = long long;
using u8 = unsigned char;
struct f16 {
  unsigned short bits;
};
struct bf16 {
  unsigned short bits;
};
struct b {              // NOLINT(readability-identifier-naming)
  unsigned char value;  // 0 or 1
};
// Where only the width matters.
using w1 = unsigned char;
using w2 = unsigned short;
using w4 = unsigned int;
using w8 = unsigned long long;
}  // namespace types

// --- Where a thread is ---------------------------------------------------------------------------

#ifdef TUNABLEOP_ON_HOST
TUNABLEOP_DEVICE UInt32 ThreadInBlock() { return host_position.thread; }
TUNABLEOP_DEVICE UInt32 ThreadsOfBlock() { return host_position.threads; }
TUNABLEOP_DEVICE UInt32 BlockX() { return host_position.block.x; }
TUNABLEOP_DEVICE UInt32 BlockY() { return host_position.block.y; }
TUNABLEOP_DEVICE UInt32 BlockZ() { return host_position.block.z; }
TUNABLEOP_DEVICE UInt32 BlocksX() { return host_position.grid.x; }
TUNABLEOP_DEVICE UInt32 BlocksY() { return host_position.grid.y; }
TUNABLEOP_DEVICE UInt32 BlocksZ() { return host_position.grid.z; }
TUNABLEOP_DEVICE void SyncBlock() {
  if (host_position.others != nullptr) host_position.others->Sync();
}
#else
TUNABLEOP_DEVICE UInt32 ThreadInBlock() { return threadIdx.x; }
TUNABLEOP_DEVICE UInt32 ThreadsOfBlock() { return blockDim.x; }
TUNABLEOP_DEVICE UInt32 BlockX() { return blockIdx.x; }
TUNABLEOP_DEVICE UInt32 BlockY() { return blockIdx.y; }
TUNABLEOP_DEVICE UInt32 BlockZ() { return blockIdx.z; }
TUNABLEOP_DEVICE UInt32 BlocksX() { return gridDim.x; }
TUNABLEOP_DEVICE UInt32 BlocksY() { return gridDim.y; }
TUNABLEOP_DEVICE UInt32 BlocksZ() { return gridDim.z; }
TUNABLEOP_DEVICE void SyncBlock() { __syncthreads(); }
#endif

// In the x dimension of the grid, which has fewer than 2^31 threads.
TUNABLEOP_DEVICE UInt32 GlobalThread() { return BlockX() * ThreadsOfBlock() + ThreadInBlock(); }
TUNABLEOP_DEVICE UInt32 GlobalThreads() { return BlocksX() * ThreadsOfBlock(); }

// The value of the thread whose number differs in the bits of `offset`. `lanes`, a power of two of
// at most 32, threads in a row take part, all of them; a wavefront of 64 is two such groups or
// more.
template <class M>
TUNABLEOP_DEVICE M ShuffleXor(M value, [[maybe_unused]] UInt32 offset,
                              [[maybe_unused]] UInt32 lanes) {
#if defined(TUNABLEOP_ON_CUDA)
  const UInt32 first = (threadIdx.x & 31U) & ~(lanes - 1U);
  return __shfl_xor_sync((0xFFFFFFFFU >> (32U - lanes)) << first, value, static_cast<int>(offset));
#elif defined(TUNABLEOP_ON_HIP)
  return __shfl_xor(value, static_cast<int>(offset));
#else
  if (host_position.others != nullptr) {
    host_position.others->Exchange(&value, sizeof(value), offset, lanes);
  }
  return value;
#endif
}

// --- Bits and halves -----------------------------------------------------------------------------

#ifdef TUNABLEOP_ON_HOST
TUNABLEOP_DEVICE UInt32 BitsOf(float value) {
  UInt32 bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
TUNABLEOP_DEVICE float FloatOf(UInt32 bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
TUNABLEOP_DEVICE UInt32 HighProduct(UInt32 a, UInt32 b) {
  return static_cast<UInt32>((static_cast<UInt64>(a) * b) >> 32);
}
#else
TUNABLEOP_DEVICE UInt32 BitsOf(float value) { return __float_as_uint(value); }
TUNABLEOP_DEVICE float FloatOf(UInt32 bits) { return __uint_as_float(bits); }
TUNABLEOP_DEVICE UInt32 HighProduct(UInt32 a, UInt32 b) { return __umulhi(a, b); }
#endif

TUNABLEOP_DEVICE float FloatOf(types::f16 half) {
#if defined(TUNABLEOP_ON_CUDA)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half.bits));
  return value;
#else
#if defined(__aarch64__)
  __fp16 value;
#else
  _Float16 value;
#endif
  __builtin_memcpy(&value, &half.bits, sizeof(half.bits));
  return static_cast<float>(value);
#endif
}

TUNABLEOP_DEVICE float FloatOf(types::bf16 half) {
  return FloatOf(static_cast<UInt32>(half.bits) << 16);
}

// To the nearest, ties to even; what is too large becomes infinite.
TUNABLEOP_DEVICE types::f16 HalfOf(float value) {
  types::f16 half;
#if defined(TUNABLEOP_ON_CUDA)
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(value));
#else
#if defined(__aarch64__)
  const __fp16 rounded = static_cast<__fp16>(value);
#else
  const _Float16 rounded = static_cast<_Float16>(value);
#endif
  __builtin_memcpy(&half.bits, &rounded, sizeof(half.bits));
#endif
  return half;
}

TUNABLEOP_DEVICE types::bf16 BrainOf(float value) {
  types::bf16 half;
  const UInt32 bits = BitsOf(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {  // NaN: rounding could carry into the sign
    half.bits = static_cast<unsigned short>((bits >> 16) | 0x40U);
  } else {
    half.bits = static_cast<unsigned short>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
  }
  return half;
}

TUNABLEOP_DEVICE float Infinity() { return FloatOf(0x7F800000U); }
TUNABLEOP_DEVICE float NotANumber() { return FloatOf(0x7FC00000U); }

// --- Numbers: how an element becomes what is calculated with, and back ---------------------------

template <class T>
struct Number {  // float, double, int, long long
  using Math = T;
  TUNABLEOP_MEMBER T Read(T value) { return value; }
  TUNABLEOP_MEMBER T Write(T value) { return value; }
};
template <>
struct Number<types::f16> {
  using Math = float;
  TUNABLEOP_MEMBER float Read(types::f16 value) { return FloatOf(value); }
  TUNABLEOP_MEMBER types::f16 Write(float value) { return HalfOf(value); }
};
template <>
struct Number<types::bf16> {
  using Math = float;
  TUNABLEOP_MEMBER float Read(types::bf16 value) { return FloatOf(value); }
  TUNABLEOP_MEMBER types::bf16 Write(float value) { return BrainOf(value); }
};
template <>
struct Number<types::u8> {
  using Math = int;
  TUNABLEOP_MEMBER int Read(types::u8 value) { return value; }
  TUNABLEOP_MEMBER types::u8 Write(int value) { return static_cast<types::u8>(value); }
};
template <>
struct Number<types::b> {
  using Math = int;
  TUNABLEOP_MEMBER int Read(types::b value) { return value.value != 0 ? 1 : 0; }
  TUNABLEOP_MEMBER types::b Write(int value) {
    return types::b{static_cast<unsigned char>(value != 0 ? 1 : 0)};
  }
};
template <class T>
using MathOf = typename Number<T>::Math;

// Integers wrap around, as they do in the processors; signed ones must not in C++.
template <class M>
struct Wrapping {  // float, double
  using Type = M;
};
template <>
struct Wrapping<int> {
  using Type = unsigned int;
};
template <>
struct Wrapping<long long> {
  using Type = unsigned long long;
};
template <class M>
using WrappingOf = typename Wrapping<M>::Type;

template <class A, class B>
struct Alike {
  static constexpr bool kValue = false;
};
template <class A>
struct Alike<A, A> {
  static constexpr bool kValue = true;
};
template <class M>
constexpr bool kFloating = Alike<M, float>::kValue || Alike<M, double>::kValue;

// --- Mathematics: one name for float and double --------------------------------------------------

#define TUNABLEOP_MATH(Name, single, twice)                    \
  TUNABLEOP_DEVICE float Name(float x) { return ::single(x); } \
  TUNABLEOP_DEVICE double Name(double x) { return ::twice(x); }
TUNABLEOP_MATH(Sqrt, sqrtf, sqrt)
TUNABLEOP_MATH(Exp, expf, exp)
TUNABLEOP_MATH(Log, logf, log)
TUNABLEOP_MATH(Log1p, log1pf, log1p)
TUNABLEOP_MATH(Erf, erff, erf)
TUNABLEOP_MATH(Tanh, tanhf, tanh)
TUNABLEOP_MATH(Sin, sinf, sin)
TUNABLEOP_MATH(Cos, cosf, cos)
TUNABLEOP_MATH(Floor, floorf, floor)
TUNABLEOP_MATH(Ceil, ceilf, ceil)
TUNABLEOP_MATH(RoundEven, rintf, rint)
TUNABLEOP_MATH(Magnitude, fabsf, fabs)
#undef TUNABLEOP_MATH

template <class M>
TUNABLEOP_DEVICE bool IsNan(M x) {
  return x != x;  // NOLINT(misc-redundant-expression)
}

}  // namespace tunableop::device
