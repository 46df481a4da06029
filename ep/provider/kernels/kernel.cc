#include "provider/kernels/kernel.h"

#include <algorithm>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "gemm/device_queue.h"
#include "provider/element_type.h"
#include "provider/guard.h"
#include "provider/happens_before.h"
#include "provider/ort_runtime.h"
#include "provider/pool.h"
#include "provider/provider.h"

namespace tunableop {

Result<std::span<const int64_t>> DimsOf(const OrtValue* value) {
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const int64_t* dims = nullptr;
  size_t rank = 0;
  TUNABLEOP_RETURN_IF_ORT_ERROR(
      Ort().api->GetTensorElementTypeAndShapeDataReference(value, &type, &dims, &rank));
  return std::span<const int64_t>(dims, rank);
}

Result<TensorView> ViewOf(const OrtValue* value) {
  TensorView view;
  Result<std::span<const int64_t>> dims = DimsOf(value);
  if (!dims.ok()) return dims.TakeStatus();
  view.dims = dims.value();
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->GetTensorData(value, &view.data));
  return view;
}

Status NoMemory(GpuSession& gpu) {
  return {StatusCode::kOutOfMemory,
          "TunableOp: no memory on " + gpu.card().Name() + ": " + gpu.card().WhyNoMemory()};
}

std::string NodeName(const OrtKernelInfo* info) {
  size_t size = 0;  // with the terminating zero
  if (!FromOrt(Ort().api->KernelInfo_GetNodeName(info, nullptr, &size)).ok() || size < 2) return {};
  std::string name(size, '\0');
  if (!FromOrt(Ort().api->KernelInfo_GetNodeName(info, name.data(), &size)).ok()) return {};
  name.resize(size - 1);
  return name;
}

void PoolExecutor::ParallelFor(size_t count, Task task, void* context) noexcept {
  if (threads_ > 1 && count > 1) {
    OrtStatus* status = RunOnPool(context_, task, count, context);
    if (status == nullptr) return;
    Ort().api->ReleaseStatus(status);  // no task ran: it fails only before it starts
  }
  for (size_t i = 0; i < count; ++i) task(context, i);
}

namespace {

// The type of input 0, which all inputs share.
DataType TypeOfInput(const OrtKernelInfo* info) {
  OrtTypeInfo* raw = nullptr;
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  Status status = FromOrt(Ort().api->KernelInfo_GetInputTypeInfo(info, 0, &raw));
  const OwnedTypeInfo owned(raw);
  if (status.ok()) status = FromOrt(Ort().api->CastTypeInfoToTensorInfo(raw, &tensor));
  if (status.ok() && tensor != nullptr) {
    status = FromOrt(Ort().api->GetTensorElementType(tensor, &type));
  }
  const std::optional<DataType> known = DataTypeOf(type);
  if (!known) throw std::runtime_error("the node's element type is not one of its kernel");
  return *known;
}

}  // namespace

Kernel::Kernel(const OrtKernelInfo* info, const char* op)
    : OrtKernelImpl{}, packed_b_(std::make_shared<const PackedB>()) {
  const OrtEp* ep = nullptr;
  if (Status status = FromOrt(Ort().ep_api->KernelInfo_GetEp(info, &ep));
      !status.ok() || ep == nullptr) {
    throw std::runtime_error("the node's execution provider is not known");
  }
  state_ = static_cast<const Provider*>(ep)->state();
  gpu_ = static_cast<const Provider*>(ep)->gpu();
  type_ = TypeOfInput(info);
  element_bytes_ = SizeOf(type_);
  node_ = state_->AddNode(op, NodeName(info));
  if (gpu_ != nullptr) gpu_->AddKernel();
  int is_constant = 0;
  const OrtValue* value = nullptr;
  if (Status status =
          FromOrt(Ort().api->KernelInfoGetConstantInput_tensor(info, 1, &is_constant, &value));
      status.ok()) {
    b_constant_ = is_constant != 0;
  }
  // On the CPU weights are counted where they are packed.
  if (gpu_ != nullptr && b_constant_ && value != nullptr) {
    if (const Result<std::span<const int64_t>> dims = DimsOf(value); dims.ok()) {
      size_t bytes = element_bytes_;
      for (const int64_t dim : dims.value()) bytes *= static_cast<size_t>(dim);
      state_->AddWeight(bytes);
    }
  }
  ort_version_supported = Ort().version;
  OrtKernelImpl::Compute = &ComputeImpl;
  OrtKernelImpl::Release = &ReleaseImpl;
  OrtKernelImpl::PrePackWeight = gpu_ == nullptr ? &PrePackImpl : nullptr;
  OrtKernelImpl::SetSharedPrePackedWeight =
      nullptr;  // packed weights are not shared between sessions
}

Kernel::~Kernel() {
  if (gpu_ != nullptr) gpu_->RemoveKernel();
}

Result<bool> Kernel::Pack(const TensorView& b, int64_t ldb, bool transposed, int64_t k, int64_t n,
                          int64_t batch) {
  if (k == 0 || n == 0 || batch == 0) return false;
  state_->heap_trim().Trim();
  Result<PackedB> packed =
      PackedB::Pack(static_cast<const float*>(b.data), ldb, transposed, k, n, batch, k * n);
  if (!packed.ok()) {
    if (packed.status().code() != StatusCode::kOutOfMemory) return packed.TakeStatus();
    state_->log().Warning(std::string(packed.status().message()) + "; the weight stays as it is");
    return false;
  }
  packed_b_ = std::make_shared<const PackedB>(std::move(packed).value());
  node_->weight = packed_b_;
  node_->k = k;
  node_->n = n;
  state_->AddWeight(packed_b_->bytes());
  packed_dims_.assign(b.dims.begin(), b.dims.end());
  state_->heap_trim().WillBeFreed(static_cast<size_t>(k * n * batch) * sizeof(float));
  return true;
}

Problem Kernel::CommonProblem(const Executor& executor) const noexcept {
  Problem problem;
  problem.a_type = type_;
  problem.b_type = type_;
  problem.c_type = type_;
  problem.b_constant = b_constant_ ? 1 : 0;
  problem.b_layout = *packed_b_ ? BLayout::kPacked : BLayout::kPlain;
  problem.threads = gpu_ == nullptr ? static_cast<uint16_t>(executor.threads()) : uint16_t{0};
  if (type_ == DataType::kFloat32) problem.precision = state_->options().precision;
  return problem;
}

Result<void*> Kernel::Output(OrtKernelContext* context, std::span<const int64_t> dims,
                             bool empty) const {
  OrtValue* value = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(
      Ort().api->KernelContext_GetOutput(context, 0, dims.data(), dims.size(), &value));
  void* data = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->GetTensorMutableData(value, &data));
  if (data == nullptr && !empty && gpu_ != nullptr) return NoMemory(*gpu_);
  return data;
}

Result<TensorView> Kernel::InputA(const OrtKernelContext* context) {
  const OrtValue* value = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->KernelContext_GetInput(context, 0, &value));
  return ViewOf(value);
}

Result<TensorView> Kernel::InputB(const OrtKernelContext* context) const {
  if (*packed_b_) return TensorView{nullptr, packed_dims_};
  const OrtValue* value = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->KernelContext_GetInput(context, 1, &value));
  return ViewOf(value);
}

OrtStatus* Kernel::ComputeImpl(OrtKernelImpl* self, OrtKernelContext* context) noexcept {
  HappensAfter(self);  // what made and packed it
  OrtStatus* status = Guard([&]() -> Status {
    auto& kernel = *static_cast<Kernel*>(self);
    if (kernel.gpu_ == nullptr) {
      PoolExecutor executor(context, kernel.state_->Threads(context));
      return kernel.Compute(context, executor);
    }
    Result<const DeviceQueue*> queue = kernel.gpu_->QueueOf(context);
    if (!queue.ok()) return queue.TakeStatus();
    QueueExecutor executor(*queue.value());
    return kernel.Compute(context, executor);
  });
  if (const auto& kernel = *static_cast<const Kernel*>(self); kernel.gpu_ != nullptr) {
    kernel.gpu_->CountCall(status == nullptr);
  }
  HappensBefore(&self->ort_version_supported);
  return status;
}

void Kernel::ReleaseImpl(OrtKernelImpl* self) noexcept {
  HappensAfter(&self->ort_version_supported);  // every Compute
  delete static_cast<Kernel*>(self);
}

OrtStatus* Kernel::PrePackImpl(OrtKernelImpl* self, const OrtValue* tensor, int input_index,
                               OrtAllocator* /*allocator*/,
                               OrtSharedPrePackedWeightCache* /*shared*/,
                               bool* is_packed) noexcept {
  *is_packed = false;
  if (input_index != 1) return nullptr;
  return Guard([&]() -> Status {
    Result<TensorView> b = ViewOf(tensor);
    if (!b.ok()) return b.TakeStatus();
    Result<bool> packed = static_cast<Kernel*>(self)->PackB(b.value());
    if (!packed.ok()) return packed.TakeStatus();
    *is_packed = packed.value();
    HappensBefore(self);
    return Status::Ok();
  });
}

}  // namespace tunableop
