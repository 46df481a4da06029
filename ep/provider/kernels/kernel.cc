#include "provider/kernels/kernel.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>

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

Result<float*> Output(OrtKernelContext* context, size_t index, std::span<const int64_t> dims) {
  OrtValue* value = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(
      Ort().api->KernelContext_GetOutput(context, index, dims.data(), dims.size(), &value));
  void* data = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->GetTensorMutableData(value, &data));
  return static_cast<float*>(data);
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

// Empty where the node has none.
std::string NodeName(const OrtKernelInfo* info) {
  size_t size = 0;  // with the terminating zero
  if (!FromOrt(Ort().api->KernelInfo_GetNodeName(info, nullptr, &size)).ok() || size < 2) return {};
  std::string name(size, '\0');
  if (!FromOrt(Ort().api->KernelInfo_GetNodeName(info, name.data(), &size)).ok()) return {};
  name.resize(size - 1);
  return name;
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
  node_ = state_->AddNode(op, NodeName(info));
  int is_constant = 0;
  const OrtValue* value = nullptr;
  if (Status status =
          FromOrt(Ort().api->KernelInfoGetConstantInput_tensor(info, 1, &is_constant, &value));
      status.ok()) {
    b_constant_ = is_constant != 0;
  }
  ort_version_supported = Ort().version;
  OrtKernelImpl::Compute = &ComputeImpl;
  OrtKernelImpl::Release = &ReleaseImpl;
  OrtKernelImpl::PrePackWeight = &PrePackImpl;
  OrtKernelImpl::SetSharedPrePackedWeight =
      nullptr;  // packed weights are not shared between sessions
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
  OrtStatus* status = Guard([&] { return static_cast<Kernel*>(self)->Compute(context); });
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
