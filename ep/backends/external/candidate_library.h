// A library of GEMM kernels of your own, as plain C: what TUNABLEOP_CANDIDATE_LIBRARIES names.
// docs/candidate-libraries.md shows one. This header needs no other of the project.
//
// Row-major throughout:  C[i] = epilogue(alpha * op(A[i]) * op(B[i]) + beta * C[i]),  i < batch
//   op(A) is m x k, op(B) is k x n, C is m x n.
#ifndef TUNABLEOP_CANDIDATE_LIBRARY_H_
#define TUNABLEOP_CANDIDATE_LIBRARY_H_

#include <math.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Grows with every change of this file that a library must know of.
#define TUNABLEOP_CANDIDATE_ABI 1u

enum TunableOpType { TUNABLEOP_FP32, TUNABLEOP_FP16, TUNABLEOP_BF16, TUNABLEOP_FP64 };
enum TunableOpScalar { TUNABLEOP_ZERO, TUNABLEOP_ONE, TUNABLEOP_OTHER };
enum TunableOpEpilogue {
  TUNABLEOP_NONE,
  TUNABLEOP_BIAS,
  TUNABLEOP_RELU,
  TUNABLEOP_BIAS_RELU,
  TUNABLEOP_GELU,  // x / 2 * (1 + erf(x / sqrt(2)))
  TUNABLEOP_BIAS_GELU
};

// What is to be computed.
typedef struct TunableOpGemm {
  int64_t m, n, k, batch;
  int64_t lda, ldb, ldc;                 // elements between rows as stored; ldb: 0 when B is packed
  int64_t stride_a, stride_b, stride_c;  // elements between batch items; 0: one for all of them
  int32_t a_type, b_type, c_type;        // enum TunableOpType
  int32_t trans_a, trans_b;              // 1: stored k x m, n x k; B never when it is packed
  int32_t b_packed;                      // 1: B comes as `packed_b`; a weight always does
  int32_t b_constant;                    // 1: B is the same in every call
  int32_t alpha, beta;                   // enum TunableOpScalar: what the values may be
  int32_t epilogue;                      // enum TunableOpEpilogue
  int32_t align_a, align_b, align_c;     // log2 of the pointers' alignment, at most 4
  int32_t threads;                       // that the caller has; a kernel itself starts none
} TunableOpGemm;

// The data of one call. All memory is the caller's; only C may be written, and no more of it than
// its m x n elements.
typedef struct TunableOpOperands {
  const void* a;
  const void* b;          // NULL when B is packed
  const float* packed_b;  // NULL when it is not
  void* c;                // to be read only when beta is not zero
  const void* bias;       // [n], with an epilogue that has one
  float alpha, beta;
} TunableOpOperands;

// Every function may be called from any number of threads at once, and none may throw. All pointers
// stay valid until the process ends: a library is never unloaded.
typedef struct TunableOpCandidateLibrary {
  uint32_t abi;           // TUNABLEOP_CANDIDATE_ABI of the header it was compiled with
  uint32_t kernel_count;  // kernels are numbered from 0
  const char* name;       // a-z, 0-9, '_' and '-'; not that of another library
  const char* identity;   // your version: a new one makes what was measured before worthless
  // Not empty, unlike the others' and the same in every process: results are saved under it.
  const char* (*kernel_name)(uint32_t kernel);
  // 1: it can. Asked with fp32 only, and never with k == 0. Depends on `gemm` alone.
  int (*supports)(uint32_t kernel, const TunableOpGemm* gemm);
  // 1: a range of rows may be computed alone, so that the caller can share the work among its
  // threads, each with a gemm of fewer rows. NULL: none can.
  int (*rows_are_independent)(uint32_t kernel);
  // Computes C on the calling thread. 0: done; anything else: an error, and C is not used.
  int (*run)(uint32_t kernel, const TunableOpGemm* gemm, const TunableOpOperands* operands);
} TunableOpCandidateLibrary;

// What a library exports, under this name, with C linkage.
typedef const TunableOpCandidateLibrary* (*TunableOpGetCandidateLibraryFunction)(void);
#define TUNABLEOP_GET_CANDIDATE_LIBRARY "TunableOpGetCandidateLibrary"

// The packed layout. The columns of op(B) are cut into groups of 64; each group is a dense
// row-major [k][width] block, and group g starts at float 64 * g * k. Every group but the last is
// 64 wide; the last one's width is what is left, rounded up to 16 and filled with zeros, or 1 when
// n == 1.
static inline int64_t TunableOpPackedWidth(int64_t n, int64_t group) {
  const int64_t left = n - group * 64;
  if (left >= 64) return 64;
  return n == 1 ? 1 : (left + 15) / 16 * 16;
}
static inline float TunableOpPackedAt(const float* packed, int64_t k, int64_t n, int64_t row,
                                      int64_t column) {
  const int64_t group = column / 64;
  return packed[group * 64 * k + row * TunableOpPackedWidth(n, group) + column % 64];
}

// op(A[item])[row, column] and op(B[item])[row, column] of fp32 operands, in every layout. Slow:
// for references and first attempts.
static inline float TunableOpAtA(const TunableOpGemm* g, const TunableOpOperands* o, int64_t item,
                                 int64_t row, int64_t column) {
  const float* a = (const float*)o->a + item * g->stride_a;
  return g->trans_a ? a[column * g->lda + row] : a[row * g->lda + column];
}
static inline float TunableOpAtB(const TunableOpGemm* g, const TunableOpOperands* o, int64_t item,
                                 int64_t row, int64_t column) {
  const float* b = (const float*)o->b;
  if (g->b_packed) {
    return TunableOpPackedAt(o->packed_b + item * g->stride_b, g->k, g->n, row, column);
  }
  b += item * g->stride_b;
  return g->trans_b ? b[column * g->ldb + row] : b[row * g->ldb + column];
}

// What belongs at C[item][row, column], given the sum of products there.
static inline float TunableOpFinish(const TunableOpGemm* g, const TunableOpOperands* o,
                                    int64_t item, int64_t row, int64_t column, float sum) {
  float x = o->alpha * sum;
  if (o->beta != 0.0f) {
    x += o->beta * ((const float*)o->c)[item * g->stride_c + row * g->ldc + column];
  }
  switch (g->epilogue) {
    case TUNABLEOP_BIAS:
    case TUNABLEOP_BIAS_RELU:
    case TUNABLEOP_BIAS_GELU:
      x += ((const float*)o->bias)[column];
      break;
    default:
      break;
  }
  switch (g->epilogue) {
    case TUNABLEOP_RELU:
    case TUNABLEOP_BIAS_RELU:
      return x < 0.0f ? 0.0f : x;  // NaN stays
    case TUNABLEOP_GELU:
    case TUNABLEOP_BIAS_GELU:
      return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    default:
      return x;
  }
}

#ifdef __cplusplus
}
#endif

#endif  // TUNABLEOP_CANDIDATE_LIBRARY_H_
