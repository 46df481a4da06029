// librocblas: GEMMs by index of a solution.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "core/card.h"
#include "core/error.h"
#include "core/faults.h"
#include "core/flavour.h"
#include "core/graveyard.h"
#include "core/launch.h"
#include "core/lt_objects.h"
#include "core/stream.h"
#include "hip/rocblas_solutions.h"

namespace {

using namespace simgpu::blas;  // NOLINT: all of it is this library's
using simgpu::Checked;
using simgpu::Err;

// rocblas_operation
constexpr int kNone = 111;
constexpr int kConjugate = 113;
// rocblas_gemm_algo, rocblas_gemm_flags
constexpr int kBySolutionIndex = 1;
constexpr uint32_t kCheckOnly = 8;

Status CheckHandle(void* handle) {
  const Handle* const typed = Checked<Handle>(handle);
  if (typed == nullptr) return kInvalidHandle;
  if (simgpu::Healthy() != Err::kOk) return kInternalError;
  if (typed->ordinal == simgpu::Current()) return kSuccess;
  simgpu::Misuse("handle_of_another_card");
  return kInternalError;
}

// A call changes a handle's state: two at once are a defect of the caller.
class InCall {
 public:
  explicit InCall(void* handle) : handle_(Checked<Handle>(handle)) {
    if (handle_ != nullptr && handle_->calls.fetch_add(1) != 0) {
      simgpu::Misuse("handle_in_two_threads");
    }
  }
  ~InCall() {
    if (handle_ != nullptr) handle_->calls.fetch_sub(1);
  }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

 private:
  Handle* const handle_;
};

struct Operand {
  const void* address;
  int type;
  int ld;
  int64_t stride;
};

Status Describe(void* handle, int op_a, int op_b, int m, int n, int k, const void* alpha, Operand a,
                Operand b, const void* beta, Operand c, Operand d, int batch, int compute,
                Call* call) {
  if (const Status status = CheckHandle(handle); status != kSuccess) return status;
  for (const int operation : {op_a, op_b}) {
    if (operation < kNone || operation > kConjugate) return kInvalidValue;
  }
  if (m < 0 || n < 0 || k < 0 || batch < 0) return kInvalidSize;
  const bool trans_a = op_a != kNone;
  const bool trans_b = op_b != kNone;
  if (a.ld < (trans_a ? k : m) || b.ld < (trans_b ? n : k) || c.ld < m || d.ld < m) {
    return kInvalidSize;
  }
  if (alpha == nullptr || beta == nullptr) return kInvalidPointer;
  // Also of calls that read nothing: those of rocBLAS 4 want pointers.
  if (a.address == nullptr || b.address == nullptr || d.address == nullptr) return kInvalidPointer;
  call->types = simgpu::blas::TypesAt(a.type, c.type, compute);
  if (b.type != a.type || d.type != c.type) call->types = -1;
  if (call->types < 0) return kNotImplemented;
  if (simgpu::FaultOn("blas_unsupported")) return kArchMismatch;
  call->transposes = (trans_a ? 1 : 0) + (trans_b ? 2 : 0);
  call->scale_type = TypeOf(compute);
  simgpu::Gemm& gemm = call->gemm;
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  gemm.batch = batch;
  gemm.compute = compute == 152 ? simgpu::Compute::kF64 : simgpu::Compute::kF32;
  const auto matrix = [](const Operand& operand, bool transposed) {
    simgpu::Matrix made;
    made.data = static_cast<char*>(const_cast<void*>(operand.address));
    made.type = TypeOf(operand.type);
    made.row_stride = transposed ? operand.ld : 1;
    made.column_stride = transposed ? 1 : operand.ld;
    made.batch_stride = operand.stride;
    return made;
  };
  gemm.a = matrix(a, trans_a);
  gemm.b = matrix(b, trans_b);
  gemm.c = matrix(c, false);
  gemm.d = matrix(d, false);
  if (Checked<Handle>(handle)->device_scalars) {
    call->alpha = alpha;
    call->beta = beta;
  } else {
    gemm.alpha = simgpu::Load(static_cast<const char*>(alpha), call->scale_type);
    gemm.beta = simgpu::Load(static_cast<const char*>(beta), call->scale_type);
  }
  return kSuccess;
}

// Whether what it needs fits the workspace that the handle was given; without one it has its own.
bool Fits(const Handle& owner, const Call& call, int position) {
  return owner.workspace == nullptr ||
         PartialBytes(call.gemm, HowAt(call, position)) <= owner.workspace_bytes;
}

Status Multiply(void* handle, const Call& call, int algo, int index, uint32_t flags) {
  const Handle& owner = *Checked<Handle>(handle);
  const simgpu::Gemm& gemm = call.gemm;
  if (gemm.m == 0 || gemm.n == 0 || gemm.batch == 0) return kSuccess;
  const int standard = DefaultOf(owner, call);
  int position = standard;
  if (algo == kBySolutionIndex && index != 0) {
    position = -1;
    for (int i = 0; i < kSolutions; ++i) {
      if (IndexAt(call, i) == index) position = i;
    }
    if (position >= 0 && !Runs(owner, call, position)) position = -1;
  }
  if (position < 0) return kInvalidValue;
  if (!Fits(owner, call, position)) return kMemoryError;
  if ((flags & kCheckOnly) != 0) return kSuccess;
  std::shared_ptr<simgpu::Stream> queue;
  if (simgpu::FindStream(owner.stream, &queue) != Err::kOk) return kInvalidValue;
  if (queue->card.ordinal != simgpu::Current()) {
    simgpu::Misuse("stream_of_another_card");
    return kInvalidValue;
  }
  simgpu::Launch launch;
  launch.gemm = gemm;
  launch.how = HowAt(call, position);
  if (owner.workspace != nullptr && PartialBytes(gemm, launch.how) != 0) {
    launch.workspace = owner.workspace;
  }
  launch.alpha = call.alpha;
  launch.beta = call.beta;
  launch.scale_type = call.scale_type;
  launch.algo = AlgoAt(position);
  launch.algo.id = IndexAt(call, position);
  launch.cost_id = position;
  launch.first = position == standard;
  switch (simgpu::RefusalOf(launch.algo.id)) {
    case simgpu::Refusal::kNotSupported:
      return kNotImplemented;
    case simgpu::Refusal::kExecutionFailed:
      return kInternalError;
    case simgpu::Refusal::kNone:
      break;
  }
  return LaunchGemm(queue, launch) == Err::kOk ? kSuccess : kInternalError;
}

Status List(void* handle, const Call& call, int* list, int* size) {
  if (size == nullptr) return kInvalidPointer;
  simgpu::Count("solutions");
  int found = 0;
  // In no order that a caller could rely on: the real ones are sorted by address.
  for (int i = kSolutions - 1; i >= 0; --i) {
    const Handle& owner = *Checked<Handle>(handle);
    if (!Runs(owner, call, i) || !Fits(owner, call, i)) continue;
    if (list != nullptr && found < *size) list[found] = IndexAt(call, i);
    ++found;
  }
  if (list == nullptr) *size = found;
  return kSuccess;
}

std::string VersionText() {
  if (simgpu::FaultOn("old_library")) return "2.0.0.sim";
  return std::string(simgpu::ThisFlavour().blas_version) +
         (simgpu::FaultOn("moved_indices") ? "-moved" : "");
}

}  // namespace

extern "C" {

SIM_API int rocblas_create_handle(void** handle) {
  if (handle == nullptr) return kInvalidPointer;
  if (simgpu::Healthy() != Err::kOk) return kInternalError;
  if (simgpu::FaultOn("no_handles")) return kInternalError;
  // It takes memory of the card.
  if (simgpu::ForbiddenInCapture() != Err::kOk) return kInternalError;
  auto* const made = new Handle;
  made->ordinal = simgpu::Current();
  *handle = made;
  simgpu::Count("handles");
  return kSuccess;
}
SIM_API int rocblas_destroy_handle(void* handle) {
  Handle* const typed = Checked<Handle>(handle);
  if (typed == nullptr) return kInvalidHandle;
  typed->magic = 0;
  simgpu::Bury(std::shared_ptr<Handle>(typed));
  simgpu::Count("handles_destroyed");
  return kSuccess;
}
SIM_API int rocblas_set_stream(void* handle, void* stream) {
  Handle* const typed = Checked<Handle>(handle);
  if (typed == nullptr) return kInvalidHandle;
  std::shared_ptr<simgpu::Stream> queue;
  if (stream != nullptr && simgpu::FindStream(stream, &queue) != Err::kOk) return kInvalidValue;
  if (queue != nullptr && queue->card.ordinal != typed->ordinal) return kInvalidValue;
  typed->stream = stream;
  return kSuccess;
}
SIM_API int rocblas_set_pointer_mode(void* handle, int mode) {
  Handle* const typed = Checked<Handle>(handle);
  if (typed == nullptr) return kInvalidHandle;
  if (mode != 0 && mode != 1) return kInvalidValue;
  typed->device_scalars = mode == 1;
  return kSuccess;
}
SIM_API int rocblas_set_atomics_mode(void* handle, int mode) {
  Handle* const typed = Checked<Handle>(handle);
  if (typed == nullptr) return kInvalidHandle;
  if (mode != 0 && mode != 1) return kInvalidValue;
  typed->atomics = mode == 1;
  return kSuccess;
}
SIM_API int rocblas_set_workspace(void* handle, void* workspace, size_t bytes) {
  Handle* const typed = Checked<Handle>(handle);
  if (typed == nullptr) return kInvalidHandle;
  typed->workspace = static_cast<char*>(workspace);
  typed->workspace_bytes = bytes;
  return kSuccess;
}
SIM_API void rocblas_initialize() {}

SIM_API int rocblas_get_version_string_size(size_t* size) {
  if (size == nullptr) return kInvalidPointer;
  *size = VersionText().size() + 1;
  return kSuccess;
}
SIM_API int rocblas_get_version_string(char* text, size_t size) {
  if (text == nullptr) return kInvalidPointer;
  const std::string version = VersionText();
  if (size < version.size() + 1) return kInvalidSize;
  std::snprintf(text, size, "%s", version.c_str());
  return kSuccess;
}

SIM_API int rocblas_gemm_ex(void* handle, int op_a, int op_b, int m, int n, int k,
                            const void* alpha, const void* a, int a_type, int lda, const void* b,
                            int b_type, int ldb, const void* beta, const void* c, int c_type,
                            int ldc, void* d, int d_type, int ldd, int compute, int algo,
                            int solution_index, uint32_t flags) {
  const InCall in_call(handle);
  Call call;
  const Status status =
      Describe(handle, op_a, op_b, m, n, k, alpha, {a, a_type, lda, 0}, {b, b_type, ldb, 0}, beta,
               {c, c_type, ldc, 0}, {d, d_type, ldd, 0}, 1, compute, &call);
  return status != kSuccess ? status : Multiply(handle, call, algo, solution_index, flags);
}

SIM_API int rocblas_gemm_strided_batched_ex(void* handle, int op_a, int op_b, int m, int n, int k,
                                            const void* alpha, const void* a, int a_type, int lda,
                                            int64_t stride_a, const void* b, int b_type, int ldb,
                                            int64_t stride_b, const void* beta, const void* c,
                                            int c_type, int ldc, int64_t stride_c, void* d,
                                            int d_type, int ldd, int64_t stride_d, int batch,
                                            int compute, int algo, int solution_index,
                                            uint32_t flags) {
  const InCall in_call(handle);
  Call call;
  const Status status = Describe(handle, op_a, op_b, m, n, k, alpha, {a, a_type, lda, stride_a},
                                 {b, b_type, ldb, stride_b}, beta, {c, c_type, ldc, stride_c},
                                 {d, d_type, ldd, stride_d}, batch, compute, &call);
  return status != kSuccess ? status : Multiply(handle, call, algo, solution_index, flags);
}

SIM_API int rocblas_gemm_ex_get_solutions(void* handle, int op_a, int op_b, int m, int n, int k,
                                          const void* alpha, const void* a, int a_type, int lda,
                                          const void* b, int b_type, int ldb, const void* beta,
                                          const void* c, int c_type, int ldc, void* d, int d_type,
                                          int ldd, int compute, int, uint32_t, int* list,
                                          int* size) {
  const InCall in_call(handle);
  Call call;
  const Status status =
      Describe(handle, op_a, op_b, m, n, k, alpha, {a, a_type, lda, 0}, {b, b_type, ldb, 0}, beta,
               {c, c_type, ldc, 0}, {d, d_type, ldd, 0}, 1, compute, &call);
  return status != kSuccess ? status : List(handle, call, list, size);
}

SIM_API int rocblas_gemm_strided_batched_ex_get_solutions(
    void* handle, int op_a, int op_b, int m, int n, int k, const void* alpha, const void* a,
    int a_type, int lda, int64_t stride_a, const void* b, int b_type, int ldb, int64_t stride_b,
    const void* beta, const void* c, int c_type, int ldc, int64_t stride_c, void* d, int d_type,
    int ldd, int64_t stride_d, int batch, int compute, int, uint32_t, int* list, int* size) {
  const InCall in_call(handle);
  Call call;
  const Status status = Describe(handle, op_a, op_b, m, n, k, alpha, {a, a_type, lda, stride_a},
                                 {b, b_type, ldb, stride_b}, beta, {c, c_type, ldc, stride_c},
                                 {d, d_type, ldd, stride_d}, batch, compute, &call);
  return status != kSuccess ? status : List(handle, call, list, size);
}

// All that the types have, whatever the problem.
SIM_API int rocblas_gemm_ex_get_solutions_by_type(void* handle, int in_type, int out_type,
                                                  int compute, uint32_t, int* list, int* size) {
  if (const Status status = CheckHandle(handle); status != kSuccess) return status;
  if (size == nullptr) return kInvalidPointer;
  int found = 0;
  const int types = simgpu::blas::TypesAt(in_type, out_type, compute);
  if (types < 0) return kNotImplemented;
  for (int transposes = 0; transposes < 4; ++transposes) {
    Call call;
    call.types = types;
    call.transposes = transposes;
    for (int i = 0; i < kSolutions; ++i) {
      if (list != nullptr && found < *size) list[found] = IndexAt(call, i);
      ++found;
    }
  }
  if (list == nullptr) *size = found;
  return kSuccess;
}

}  // extern "C"
