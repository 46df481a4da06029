// What MatMul and Gemm share: a constant B packed once, and the way from tensors to the session's
// choice.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "abi/ort_c_api.h"
#include "gemm/packed_b.h"
#include "gemm/status.h"
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
  virtual ~Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

 protected:
  // Error when `info` is not of a session of ours. `op`: "MatMul".
  Kernel(const OrtKernelInfo* info, const char* op);

  virtual Status Compute(OrtKernelContext* context) = 0;
  // True: the constant B (input 1) was packed and ONNX Runtime may free its copy.
  virtual Result<bool> PackB(const TensorView& b) = 0;

  // For PackB: keeps `batch` matrices of op(B), k x n, and the dimensions of the original.
  Result<bool> Pack(const TensorView& b, int64_t ldb, bool transposed, int64_t k, int64_t n,
                    int64_t batch);

  SessionState& state() const noexcept { return *state_; }
  GemmNode& node() const noexcept { return *node_; }
  bool b_constant() const noexcept { return b_constant_; }
  const PackedB& packed_b() const noexcept { return *packed_b_; }
  static Result<TensorView> InputA(const OrtKernelContext* context);
  // Input 1 of this call: the packed constant's dimensions without data, or the tensor.
  Result<TensorView> InputB(const OrtKernelContext* context) const;

 private:
  static OrtStatus* ComputeImpl(OrtKernelImpl* self, OrtKernelContext* context) noexcept;
  static void ReleaseImpl(OrtKernelImpl* self) noexcept;
  static OrtStatus* PrePackImpl(OrtKernelImpl* self, const OrtValue* tensor, int input_index,
                                OrtAllocator* allocator, OrtSharedPrePackedWeightCache* shared,
                                bool* is_packed) noexcept;

  std::shared_ptr<SessionState> state_;
  std::shared_ptr<GemmNode> node_;
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

// Data pointer of the kernel's output `index` with these dimensions.
Result<float*> Output(OrtKernelContext* context, size_t index, std::span<const int64_t> dims);

// Registered with ONNX Runtime, one for each operator: OrtKernelCreateFunc.
OrtStatus* CreateMatMul(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateGemm(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;

}  // namespace tunableop
