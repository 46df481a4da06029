#include "backends/blas/rocblas_gemm.h"

#include <algorithm>
#include <limits>
#include <string>

namespace tunableop::blas {
namespace {

// More than any version has for one problem; a list that is longer is not believed.
constexpr int32_t kMostSolutions = 1'000'000;

int TypeOf(DataType type) noexcept {
  switch (type) {
    case DataType::kFloat16:
      return hip_abi::rocblas_datatype_f16_r;
    case DataType::kBFloat16:
      return hip_abi::rocblas_datatype_bf16_r;
    case DataType::kFloat64:
      return hip_abi::rocblas_datatype_f64_r;
    case DataType::kFloat32:
      break;
  }
  return hip_abi::rocblas_datatype_f32_r;
}

int OperationOf(uint8_t transposed) noexcept {
  return transposed != 0 ? hip_abi::rocblas_operation_transpose : hip_abi::rocblas_operation_none;
}

bool Fits(int64_t value) noexcept { return value <= std::numeric_limits<int32_t>::max(); }

// Why not; null: nothing is against it.
const char* WhyNot(const Problem& p) noexcept {
  if (p.b_layout == BLayout::kPacked) return "B is packed";
  if (p.epilogue != Epilogue::kNone) return "rocBLAS has no epilogues";
  if (p.a_type != p.b_type || p.a_type != p.c_type) return "operands of several types";
  // There is nothing to be fast at, and it is easily got wrong.
  if (p.k == 0) return "k is 0";
  if (!Fits(p.m) || !Fits(p.n) || !Fits(p.k) || !Fits(p.batch) || !Fits(p.lda) || !Fits(p.ldb) ||
      !Fits(p.ldc)) {
    return "rocBLAS counts with 32 bits";
  }
  if (p.batch > 1 && p.stride_c == 0) return "all items of the batch write to one C";
  return nullptr;
}

// alpha and beta in the type of computation, on the host.
struct Scalars {
  Scalars(const Operands& operands, int compute) noexcept
      : alpha_f32(operands.alpha),
        beta_f32(operands.beta),
        alpha_f64(operands.alpha),
        beta_f64(operands.beta),
        wide(compute == hip_abi::rocblas_datatype_f64_r) {}
  const void* alpha() const noexcept {
    return wide ? static_cast<const void*>(&alpha_f64) : &alpha_f32;
  }
  const void* beta() const noexcept {
    return wide ? static_cast<const void*>(&beta_f64) : &beta_f32;
  }

  const float alpha_f32;
  const float beta_f32;
  const double alpha_f64;
  const double beta_f64;
  const bool wide;
};

float Example(ScalarClass scalar) noexcept {
  switch (scalar) {
    case ScalarClass::kZero:
      return 0.0F;
    case ScalarClass::kOne:
      return 1.0F;
    case ScalarClass::kOther:
      break;
  }
  return 0.5F;
}

}  // namespace

Result<RocblasGemm> RocblasGemm::Create(const Problem& problem) {
  TUNABLEOP_RETURN_IF_ERROR(Validate(problem));
  if (const char* reason = WhyNot(problem); reason != nullptr) {
    return Status(StatusCode::kNotSupported, ToString(problem) + ": " + reason);
  }
  return RocblasGemm(problem);
}

RocblasGemm::RocblasGemm(const Problem& p) noexcept
    : trans_a_(OperationOf(p.trans_b)),
      trans_b_(OperationOf(p.trans_a)),
      m_(static_cast<int32_t>(p.n)),
      n_(static_cast<int32_t>(p.m)),
      k_(static_cast<int32_t>(p.k)),
      lda_(static_cast<int32_t>(p.ldb)),
      ldb_(static_cast<int32_t>(p.lda)),
      ldc_(static_cast<int32_t>(p.ldc)),
      batch_(static_cast<int32_t>(p.batch)),
      stride_a_(p.stride_b),
      stride_b_(p.stride_a),
      stride_c_(p.stride_c),
      type_(TypeOf(p.a_type)),
      compute_(p.a_type == DataType::kFloat64 ? hip_abi::rocblas_datatype_f64_r
                                              : hip_abi::rocblas_datatype_f32_r),
      alpha_(p.alpha),
      beta_(p.beta) {}

int RocblasGemm::Run(const RocblasLibrary& library, void* handle, const Operands& operands,
                     int32_t solution_index) const noexcept {
  return Call(library, handle, operands, solution_index, hip_abi::rocblas_gemm_flags_none);
}

int RocblasGemm::Check(const RocblasLibrary& library, void* handle,
                       int32_t solution_index) const noexcept {
  return Call(library, handle, Nothing(), solution_index,
              hip_abi::rocblas_gemm_flags_check_solution_index);
}

Status RocblasGemm::Solutions(const RocblasLibrary& library, void* handle,
                              std::vector<int32_t>& indices) const {
  indices.clear();
  int32_t count = 0;
  int status = List(library, handle, nullptr, &count);
  if (status == hip_abi::rocblas_status_success && count > 0 && count <= kMostSolutions) {
    indices.resize(static_cast<size_t>(count));
    status = List(library, handle, indices.data(), &count);
  }
  if (status != hip_abi::rocblas_status_success) indices.clear();
  TUNABLEOP_RETURN_IF_ERROR(ToStatus("rocblas_gemm_ex_get_solutions", status));
  // 0 and -1 are other names of the default; 0 is also what was not filled in.
  std::erase_if(indices, [](int32_t index) { return index == 0 || index == -1; });
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return Status::Ok();
}

int RocblasGemm::Call(const RocblasLibrary& library, void* handle, const Operands& operands,
                      int32_t solution_index, uint32_t flags) const noexcept {
  const Scalars scalars(operands, compute_);
  const int algo = solution_index == 0 ? hip_abi::rocblas_gemm_algo_standard
                                       : hip_abi::rocblas_gemm_algo_solution_index;
  if (batch_ == 1) {
    return library.gemm_ex(handle, trans_a_, trans_b_, m_, n_, k_, scalars.alpha(), operands.b,
                           type_, lda_, operands.a, type_, ldb_, scalars.beta(), operands.c, type_,
                           ldc_, operands.c, type_, ldc_, compute_, algo, solution_index, flags);
  }
  return library.gemm_strided_batched_ex(
      handle, trans_a_, trans_b_, m_, n_, k_, scalars.alpha(), operands.b, type_, lda_, stride_a_,
      operands.a, type_, ldb_, stride_b_, scalars.beta(), operands.c, type_, ldc_, stride_c_,
      operands.c, type_, ldc_, stride_c_, batch_, compute_, algo, solution_index, flags);
}

int RocblasGemm::List(const RocblasLibrary& library, void* handle, int32_t* indices,
                      int32_t* count) const noexcept {
  const Operands operands = Nothing();
  const Scalars scalars(operands, compute_);
  constexpr int kAlgo = hip_abi::rocblas_gemm_algo_solution_index;
  constexpr uint32_t kFlags = hip_abi::rocblas_gemm_flags_none;
  if (batch_ == 1) {
    return library.gemm_ex_get_solutions(handle, trans_a_, trans_b_, m_, n_, k_, scalars.alpha(),
                                         operands.b, type_, lda_, operands.a, type_, ldb_,
                                         scalars.beta(), operands.c, type_, ldc_, operands.c, type_,
                                         ldc_, compute_, kAlgo, kFlags, indices, count);
  }
  return library.gemm_strided_batched_ex_get_solutions(
      handle, trans_a_, trans_b_, m_, n_, k_, scalars.alpha(), operands.b, type_, lda_, stride_a_,
      operands.a, type_, ldb_, stride_b_, scalars.beta(), operands.c, type_, ldc_, stride_c_,
      operands.c, type_, ldc_, stride_c_, batch_, compute_, kAlgo, kFlags, indices, count);
}

void* RocblasGemm::Unread() noexcept {
  // Below the lowest address that Linux gives out.
  return reinterpret_cast<void*>(uintptr_t{1} << 12);
}

Operands RocblasGemm::Nothing() const noexcept {
  Operands operands;
  operands.a = Unread();
  operands.b = Unread();
  operands.c = Unread();
  operands.alpha = Example(alpha_);
  operands.beta = Example(beta_);
  return operands;
}

}  // namespace tunableop::blas
