// What MatMul and Gemm share, on a CPU and on a card: a constant B packed once (CPU), and the way
// from tensors to the session's choice.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "abi/ort_c_api.h"
#include "gemm/executor.h"
#include "gemm/packed_b.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "provider/gpu/gpu_session.h"
#include "provider/session_state.h"

namespace tunableop {

// A tensor of a kernel call. Memory and dimensions are ONNX Runtime's, valid during the call.
struct TensorView {
  const void* data = nullptr;
  std::span<const int64_t> dims;
};
Result<TensorView> ViewOf(const OrtValue* value);
// Only the dimensions: for a tensor whose data was given up after packing.
Result<std::span<const int64_t>> DimsOf(const OrtValue* value);

// Base of the kernels that ONNX Runtime calls through OrtKernelImpl. One object serves one node;
// Compute may run on several threads at once.
class Kernel : public OrtKernelImpl {
 public:
  virtual ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

 protected:
  // Error when `info` is not of a session of ours. `op`: "MatMul".
  Kernel(const OrtKernelInfo* info, const char* op);

  // `executor` is ONNX Runtime's pool, or the card's queue: nothing may be waited for there.
  virtual Status Compute(OrtKernelContext* context, Executor& executor) = 0;
  // True: the constant B (input 1) was packed and ONNX Runtime may free its copy. Not called on a
  // card.
  virtual Result<bool> PackB(const TensorView& b) = 0;

  // For PackB: keeps `batch` matrices of op(B), k x n, and the dimensions of the original.
  Result<bool> Pack(const TensorView& b, int64_t ldb, bool transposed, int64_t k, int64_t n,
                    int64_t batch);

  // What all calls of this node have in common.
  Problem CommonProblem(const Executor& executor) const noexcept;

  SessionState& state() const noexcept { return *state_; }
  GpuSession* gpu() const noexcept { return gpu_.get(); }  // null: on a CPU
  DataType type() const noexcept { return type_; }
  size_t element_bytes() const noexcept { return element_bytes_; }
  GemmNode& node() const noexcept { return *node_; }
  bool b_constant() const noexcept { return b_constant_; }
  const PackedB& packed_b() const noexcept { return *packed_b_; }
  static Result<TensorView> InputA(const OrtKernelContext* context);
  // Input 1 of this call: the packed constant's dimensions without data, or the tensor.
  Result<TensorView> InputB(const OrtKernelContext* context) const;
  // Data of the kernel's output 0 with these dimensions. `empty`: it has no element, and null is no
  // error.
  Result<void*> Output(OrtKernelContext* context, std::span<const int64_t> dims, bool empty) const;

 private:
  static OrtStatus* ComputeImpl(OrtKernelImpl* self, OrtKernelContext* context) noexcept;
  static void ReleaseImpl(OrtKernelImpl* self) noexcept;
  static OrtStatus* PrePackImpl(OrtKernelImpl* self, const OrtValue* tensor, int input_index,
                                OrtAllocator* allocator, OrtSharedPrePackedWeightCache* shared,
                                bool* is_packed) noexcept;

  std::shared_ptr<SessionState> state_;
  std::shared_ptr<GpuSession> gpu_;
  std::shared_ptr<GemmNode> node_;
  DataType type_ = DataType::kFloat32;
  size_t element_bytes_ = sizeof(float);
  bool b_constant_ = false;
  std::shared_ptr<const PackedB> packed_b_;  // never null: without data when B is not packed
  std::vector<int64_t> packed_dims_;
};

// ONNX Runtime's intra-op pool as an Executor. Lives during one kernel call.
class PoolExecutor final : public Executor {
 public:
  PoolExecutor(const OrtKernelContext* context, int threads) noexcept
      : context_(context), threads_(threads) {}
  void ParallelFor(size_t count, Task task, void* context) noexcept override;
  int threads() const noexcept override { return threads_; }

 private:
  const OrtKernelContext* context_;
  int threads_;
};

// Empty where the node has none.
std::string NodeName(const OrtKernelInfo* info);

// The error of a call whose tensors have no memory, since the card had none left.
Status NoMemory(GpuSession& gpu);

// Registered with ONNX Runtime, one for each operator: OrtKernelCreateFunc.
OrtStatus* CreateMatMul(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateGemm(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;

}  // namespace tunableop
