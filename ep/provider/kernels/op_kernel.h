// What the kernels of operators.h share: the way from ONNX Runtime's call to tensors on the card.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "abi/ort_c_api.h"
#include "backends/rtc/kernel_library.h"
#include "gemm/device_queue.h"
#include "gemm/status.h"
#include "kernels/shapes.h"
#include "provider/gpu/gpu_session.h"
#include "provider/guard.h"
#include "provider/happens_before.h"
#include "provider/operators.h"

namespace tunableop {

class SessionState;

// A tensor of a kernel call. Memory and dimensions are ONNX Runtime's, valid during the call.
struct DeviceTensor {
  void* data = nullptr;  // null: absent, or without elements
  std::span<const int64_t> dims;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;  // UNDEFINED: absent
  bool on_host = false;

  bool present() const noexcept { return type != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED; }
  int64_t elements() const noexcept;
};

// The first element of a tensor in the host's memory, of any numeric type; as an integer it is cut
// off and kept within int64.
double HostNumber(const DeviceTensor& tensor) noexcept;
int64_t HostInteger(const DeviceTensor& tensor) noexcept;

// What a kernel is told when it is made.
class OpInfo {
 public:
  OpInfo(const OrtKernelInfo* info, const Operator& op) noexcept : info_(info), op_(op) {}

  const Operator& op() const noexcept { return op_; }
  int version() const noexcept;  // opset of the node's definition
  std::string Name() const;      // the node's; may be empty
  // Attributes; `missing` where there is none.
  int64_t Int(const char* name, int64_t missing) const noexcept;
  float Float(const char* name, float missing) const noexcept;
  std::string String(const char* name, std::string missing) const;
  std::optional<std::vector<int64_t>> Ints(const char* name) const;
  // The bits of a tensor of one element of `type`; those of 0 where there is no such attribute.
  Status Element(const char* name, ONNXTensorElementDataType type, uint64_t* bits) const;
  ONNXTensorElementDataType InputType(size_t input) const noexcept;
  ONNXTensorElementDataType OutputType(size_t output) const noexcept;
  // -1: not known; empty: a scalar, absent, or not even known how many.
  std::vector<int64_t> InputDims(size_t input) const;
  size_t inputs() const noexcept;
  size_t outputs() const noexcept;

 private:
  const OrtKernelInfo* info_;
  const Operator& op_;
};

// One call. Errors name the operator.
class OpContext {
 public:
  OpContext(OrtKernelContext* context, GpuSession& gpu, const DeviceQueue& queue,
            const Operator& op) noexcept
      : context_(context), gpu_(gpu), queue_(queue), op_(op) {}

  size_t inputs() const noexcept;  // absent ones in between are counted
  size_t outputs() const noexcept;
  Result<DeviceTensor> Input(size_t index) const;
  // The first ones, as many as there is room for; those that are absent are left so.
  Status Inputs(std::span<DeviceTensor> tensors) const;
  // Asks ONNX Runtime for the output with these dimensions. Absent: nobody wants it.
  Result<DeviceTensor> Output(size_t index, std::span<const int64_t> dims) const;
  // The elements of an input in the host's memory, int64 or int32; nullopt: absent.
  Result<std::optional<std::vector<int64_t>>> HostInts(size_t index) const;

  const DeviceQueue& queue() const noexcept { return queue_; }
  NativeStream stream() const noexcept { return queue_.stream(); }
  const Device& device() const noexcept { return queue_.device(); }
  // Queues a copy of the elements, unless both are the same memory.
  Status Copy(const DeviceTensor& to, const DeviceTensor& from) const;
  // `args`: the one struct of the kernel.
  Status Launch(const DeviceFunction& function, const device::Grid& grid, const void* args) const;
  template <typename Args>
  Status Launch(const DeviceFunction& function, const device::Prepared<Args>& call) const {
    return Launch(function, call.grid, &call.args);
  }
  // What is wrong where a kernel cannot be called with these shapes.
  Status TooManyDims(std::initializer_list<std::span<const int64_t>> shapes) const;
  Status NoSuchAxis(int64_t axis, std::span<const int64_t> dims) const;
  // "Reshape: ..."
  Status Error(StatusCode code, const std::string& message) const;

 private:
  OrtKernelContext* context_;
  GpuSession& gpu_;
  const DeviceQueue& queue_;
  const Operator& op_;
};

// Base of the kernels. One object serves one node; Compute may run on several threads at once.
class OpKernel : public OrtKernelImpl {
 public:
  OpKernel() noexcept;
  virtual ~OpKernel();
  OpKernel(const OpKernel&) = delete;
  OpKernel& operator=(const OpKernel&) = delete;

  // Once, before any call: reads attributes, and finds what it will launch.
  virtual Status Init(const OpInfo& info) = 0;
  // Queues the work and returns.
  virtual Status Compute(OpContext& context) const = 0;

 protected:
  GpuSession& gpu() const noexcept { return *gpu_; }
  const std::shared_ptr<SessionState>& state() const noexcept { return state_; }
  // In Init only: compiles it if need be. `t1` may be "".
  Status Find(const char* family, const char* t0, const char* t1, const char* entry,
              DeviceFunction* function) const;

 private:
  friend Status InitOpKernel(OpKernel& kernel, void* state, const OrtKernelInfo* info);
  static OrtStatus* ComputeImpl(OrtKernelImpl* self, OrtKernelContext* context) noexcept;
  static void ReleaseImpl(OrtKernelImpl* self) noexcept;

  std::shared_ptr<GpuSession> gpu_;
  std::shared_ptr<SessionState> state_;
  const Operator* op_ = nullptr;
};

// Error: `info` is not of a session on a card of ours, or the kernel's own.
Status InitOpKernel(OpKernel& kernel, void* state, const OrtKernelInfo* info);

// The body of an OrtKernelCreateFunc.
template <typename Kernel>
OrtStatus* CreateOpKernel(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  *kernel = nullptr;
  return Guard([&]() -> Status {
    auto made = std::make_unique<Kernel>();
    TUNABLEOP_RETURN_IF_ERROR(InitOpKernel(*made, state, info));
    *kernel = made.release();
    HappensBefore(*kernel);
    return Status::Ok();
  });
}

}  // namespace tunableop
