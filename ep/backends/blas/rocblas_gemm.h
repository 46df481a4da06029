// A Problem as rocBLAS takes it: column-major, sizes of 32 bits.
//
// What is row-major here is the transpose in column-major order, so that
// C = op(A) op(B) becomes C^T = op(B)^T op(A)^T: the operands change places, m and n do, and each
// transpose stays as it is.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/blas/rocblas_library.h"
#include "gemm/backend.h"
#include "gemm/problem.h"
#include "gemm/status.h"

namespace tunableop::blas {

// rocBLAS's names throughout: `a` is our B, `b` is our A, m is our n, n is our m.
class RocblasGemm {
 public:
  // What rocBLAS cannot do, or what is not asked of it, is kNotSupported with the reason.
  static Result<RocblasGemm> Create(const Problem& problem);

  // In the place of memory where rocBLAS wants a pointer and uses none. Aligned as memory is.
  static void* Unread() noexcept;

  // Nothing to compute: C has no element.
  bool empty() const noexcept { return m_ == 0 || n_ == 0 || batch_ == 0; }

  // Queues it on the handle's stream. solution_index 0: rocBLAS chooses.
  int Run(const RocblasLibrary& library, void* handle, const Operands& operands,
          int32_t solution_index) const noexcept;

  // Whether it would run: nothing is queued and no operand is read. Assumes what rocBLAS's sources
  // of every version show: with rocblas_gemm_flags_check_solution_index it returns before it
  // launches anything, but wants pointers that are not null.
  int Check(const RocblasLibrary& library, void* handle, int32_t solution_index) const noexcept;

  // The indices of all solutions that can run it, sorted (rocBLAS gives them in the order of
  // addresses, another in each process). Precondition: the library has the functions for it. The
  // same assumption about pointers.
  Status Solutions(const RocblasLibrary& library, void* handle,
                   std::vector<int32_t>& indices) const;

 private:
  explicit RocblasGemm(const Problem& problem) noexcept;

  int Call(const RocblasLibrary& library, void* handle, const Operands& operands,
           int32_t solution_index, uint32_t flags) const noexcept;
  int List(const RocblasLibrary& library, void* handle, int32_t* indices,
           int32_t* count) const noexcept;
  // Operands of the kind that the problem has, for calls that read none.
  Operands Nothing() const noexcept;

  int trans_a_ = 0;
  int trans_b_ = 0;
  int32_t m_ = 0;
  int32_t n_ = 0;
  int32_t k_ = 0;
  int32_t lda_ = 0;
  int32_t ldb_ = 0;
  int32_t ldc_ = 0;
  int32_t batch_ = 1;
  int64_t stride_a_ = 0;
  int64_t stride_b_ = 0;
  int64_t stride_c_ = 0;
  int type_ = 0;     // of all three matrices
  int compute_ = 0;  // and of alpha and beta
  ScalarClass alpha_ = ScalarClass::kOne;
  ScalarClass beta_ = ScalarClass::kZero;
};

}  // namespace tunableop::blas
