#include "provider/kernels/op_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "provider/element_type.h"
#include "provider/kernels/element.h"
#include "provider/kernels/kernel.h"
#include "provider/kernels/matmul_shape.h"
#include "provider/ort_runtime.h"
#include "provider/provider.h"
#include "tuner/elements.h"

namespace tunableop {
namespace {

ONNXTensorElementDataType TypeOf(OrtTypeInfo* raw) noexcept {
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const OwnedTypeInfo owned(raw);
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  if (raw == nullptr || !FromOrt(Ort().api->CastTypeInfoToTensorInfo(raw, &tensor)).ok() ||
      tensor == nullptr || !FromOrt(Ort().api->GetTensorElementType(tensor, &type)).ok()) {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  }
  return type;
}

}  // namespace

int64_t DeviceTensor::elements() const noexcept {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

double HostNumber(const DeviceTensor& tensor) noexcept {
  if (const std::optional<DataType> type = DataTypeOf(tensor.type)) {
    return LoadElement(tensor.data, *type, 0);
  }
  return static_cast<double>(HostInteger(tensor));
}

int64_t HostInteger(const DeviceTensor& tensor) noexcept {
  const void* data = tensor.data;
  switch (tensor.type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      return *static_cast<const int64_t*>(data);
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      return *static_cast<const int32_t*>(data);
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
      return *static_cast<const uint8_t*>(data);
    default: {
      constexpr double kMost = 9.2e18;
      const std::optional<DataType> type = DataTypeOf(tensor.type);
      const double value = type ? LoadElement(data, *type, 0) : 0.0;
      return std::isnan(value) ? 0 : static_cast<int64_t>(std::clamp(value, -kMost, kMost));
    }
  }
}

int OpInfo::version() const noexcept {
  int version = 0;
  static_cast<void>(FromOrt(Ort().api->KernelInfo_GetOperatorSinceVersion(info_, &version)));
  return version;
}

std::string OpInfo::Name() const { return NodeName(info_); }

int64_t OpInfo::Int(const char* name, int64_t missing) const noexcept {
  int64_t value = 0;
  return FromOrt(Ort().api->KernelInfoGetAttribute_int64(info_, name, &value)).ok() ? value
                                                                                    : missing;
}

float OpInfo::Float(const char* name, float missing) const noexcept {
  float value = 0;
  return FromOrt(Ort().api->KernelInfoGetAttribute_float(info_, name, &value)).ok() ? value
                                                                                    : missing;
}

std::string OpInfo::String(const char* name, std::string missing) const {
  size_t size = 0;  // with the terminating zero
  if (!FromOrt(Ort().api->KernelInfoGetAttribute_string(info_, name, nullptr, &size)).ok() ||
      size == 0) {
    return missing;
  }
  std::string text(size, '\0');
  if (!FromOrt(Ort().api->KernelInfoGetAttribute_string(info_, name, text.data(), &size)).ok()) {
    return missing;
  }
  text.resize(size - 1);
  return text;
}

std::optional<std::vector<int64_t>> OpInfo::Ints(const char* name) const {
  size_t size = 0;
  if (!FromOrt(Ort().api->KernelInfoGetAttributeArray_int64(info_, name, nullptr, &size)).ok()) {
    return std::nullopt;
  }
  std::vector<int64_t> values(size);
  if (size > 0 &&
      !FromOrt(Ort().api->KernelInfoGetAttributeArray_int64(info_, name, values.data(), &size))
           .ok()) {
    return std::nullopt;
  }
  return values;
}

Status OpInfo::Element(const char* name, ONNXTensorElementDataType type, uint64_t* bits) const {
  *bits = 0;
  OrtAllocator* allocator = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->GetAllocatorWithDefaultOptions(&allocator));
  OrtValue* raw = nullptr;
  if (!FromOrt(Ort().api->KernelInfoGetAttribute_tensor(info_, name, allocator, &raw)).ok()) {
    return Status::Ok();
  }
  const std::unique_ptr<OrtValue, OrtDeleter<&OrtApi::ReleaseValue>> value(raw);
  ONNXTensorElementDataType given = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const int64_t* dims = nullptr;
  size_t rank = 0;
  TUNABLEOP_RETURN_IF_ORT_ERROR(
      Ort().api->GetTensorElementTypeAndShapeDataReference(raw, &given, &dims, &rank));
  DeviceTensor tensor;
  tensor.dims = {dims, rank};
  const void* data = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->GetTensorData(raw, &data));
  if (given != type || tensor.elements() != 1) {
    return {StatusCode::kInvalidArgument,
            std::string(op_.op) + ": '" + name + "' must be one element of the output's type"};
  }
  std::memcpy(bits, data, ElementBytes(type));
  return Status::Ok();
}

ONNXTensorElementDataType OpInfo::InputType(size_t input) const noexcept {
  OrtTypeInfo* type = nullptr;
  if (input >= inputs()) return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  static_cast<void>(FromOrt(Ort().api->KernelInfo_GetInputTypeInfo(info_, input, &type)));
  return TypeOf(type);
}

ONNXTensorElementDataType OpInfo::OutputType(size_t output) const noexcept {
  OrtTypeInfo* type = nullptr;
  if (output >= outputs()) return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  static_cast<void>(FromOrt(Ort().api->KernelInfo_GetOutputTypeInfo(info_, output, &type)));
  return TypeOf(type);
}

std::vector<int64_t> OpInfo::InputDims(size_t input) const {
  OrtTypeInfo* type = nullptr;
  if (input >= inputs() ||
      !FromOrt(Ort().api->KernelInfo_GetInputTypeInfo(info_, input, &type)).ok()) {
    return {};
  }
  const OwnedTypeInfo owned(type);
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  size_t rank = 0;
  if (!FromOrt(Ort().api->CastTypeInfoToTensorInfo(type, &tensor)).ok() || tensor == nullptr ||
      !FromOrt(Ort().api->GetDimensionsCount(tensor, &rank)).ok()) {
    return {};
  }
  std::vector<int64_t> dims(rank);
  if (rank > 0 && !FromOrt(Ort().api->GetDimensions(tensor, dims.data(), rank)).ok()) return {};
  return dims;
}

size_t OpInfo::inputs() const noexcept {
  size_t count = 0;
  static_cast<void>(FromOrt(Ort().api->KernelInfo_GetInputCount(info_, &count)));
  return count;
}

size_t OpInfo::outputs() const noexcept {
  size_t count = 0;
  static_cast<void>(FromOrt(Ort().api->KernelInfo_GetOutputCount(info_, &count)));
  return count;
}

size_t OpContext::outputs() const noexcept {
  size_t count = 0;
  static_cast<void>(FromOrt(Ort().api->KernelContext_GetOutputCount(context_, &count)));
  return count;
}

size_t OpContext::inputs() const noexcept {
  size_t count = 0;
  static_cast<void>(FromOrt(Ort().api->KernelContext_GetInputCount(context_, &count)));
  return count;
}

Result<DeviceTensor> OpContext::Input(size_t index) const {
  DeviceTensor tensor;
  if (index >= inputs()) return tensor;
  const OrtValue* value = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->KernelContext_GetInput(context_, index, &value));
  if (value == nullptr) return tensor;
  const int64_t* dims = nullptr;
  size_t rank = 0;
  TUNABLEOP_RETURN_IF_ORT_ERROR(
      Ort().api->GetTensorElementTypeAndShapeDataReference(value, &tensor.type, &dims, &rank));
  tensor.dims = {dims, rank};
  if (rank > device::Dims::kMost) return TooManyDims({tensor.dims});
  const void* data = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->GetTensorData(value, &data));
  tensor.data = const_cast<void*>(data);  // NOLINT: read only, and kernels take one kind of pointer
  tensor.on_host = (op_.host_inputs >> index & 1U) != 0;
  if (tensor.data == nullptr && tensor.elements() > 0) return NoMemory(gpu_);
  return tensor;
}

Status OpContext::Inputs(std::span<DeviceTensor> tensors) const {
  for (size_t i = 0; i < tensors.size(); ++i) {
    Result<DeviceTensor> input = Input(i);
    if (!input.ok()) return input.TakeStatus();
    tensors[i] = input.value();
  }
  return Status::Ok();
}

Result<DeviceTensor> OpContext::Output(size_t index, std::span<const int64_t> dims) const {
  DeviceTensor tensor;
  OrtValue* value = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(
      Ort().api->KernelContext_GetOutput(context_, index, dims.data(), dims.size(), &value));
  if (value == nullptr) return tensor;
  const int64_t* shape = nullptr;
  size_t rank = 0;
  TUNABLEOP_RETURN_IF_ORT_ERROR(
      Ort().api->GetTensorElementTypeAndShapeDataReference(value, &tensor.type, &shape, &rank));
  tensor.dims = {shape, rank};
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->GetTensorMutableData(value, &tensor.data));
  tensor.on_host = (op_.host_outputs >> index & 1U) != 0;
  if (tensor.data == nullptr && tensor.elements() > 0) return NoMemory(gpu_);
  return tensor;
}

Result<std::optional<std::vector<int64_t>>> OpContext::HostInts(size_t index) const {
  using Ints = std::optional<std::vector<int64_t>>;
  Result<DeviceTensor> input = Input(index);
  if (!input.ok()) return input.TakeStatus();
  const DeviceTensor& tensor = input.value();
  if (!tensor.present()) return Ints();
  const auto count = static_cast<size_t>(tensor.elements());
  if (tensor.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64) {
    const auto* first = static_cast<const int64_t*>(tensor.data);
    return Ints(std::in_place, first, first + count);
  }
  if (tensor.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32) {
    const auto* first = static_cast<const int32_t*>(tensor.data);
    return Ints(std::in_place, first, first + count);
  }
  return Error(StatusCode::kInvalidArgument,
               "input " + std::to_string(index) + " must be of type int64 or int32");
}

Status OpContext::Copy(const DeviceTensor& to, const DeviceTensor& from) const {
  const size_t bytes = static_cast<size_t>(from.elements()) * ElementBytes(from.type);
  if (to.data == from.data || bytes == 0) return Status::Ok();
  return device().Copy(to.data, from.data, bytes, CopyKind::kDeviceToDevice, stream());
}

Status OpContext::Launch(const DeviceFunction& function, const device::Grid& grid,
                         const void* args) const {
  return function.Launch({.grid_x = grid.x,
                          .grid_y = grid.y,
                          .grid_z = grid.z,
                          .block = grid.block,
                          .shared_bytes = grid.shared_bytes},
                         args, stream());
}

Status OpContext::TooManyDims(std::initializer_list<std::span<const int64_t>> shapes) const {
  std::string message;
  for (const std::span<const int64_t> dims : shapes) {
    message += (message.empty() ? "" : ", ") + DimsText(dims);
  }
  return Error(StatusCode::kNotSupported,
               "the shapes " + message + " do not fit, or have too many dimensions for its kernel");
}

Status OpContext::NoSuchAxis(int64_t axis, std::span<const int64_t> dims) const {
  return Error(StatusCode::kInvalidArgument,
               "axis " + std::to_string(axis) + " is none of " + DimsText(dims));
}

Status OpContext::Error(StatusCode code, const std::string& message) const {
  return {code, std::string(op_.op) + ": " + message};
}

OpKernel::OpKernel() noexcept : OrtKernelImpl{} {
  ort_version_supported = Ort().version;
  OrtKernelImpl::Compute = &ComputeImpl;
  OrtKernelImpl::Release = &ReleaseImpl;
}

OpKernel::~OpKernel() {
  if (gpu_ != nullptr) gpu_->RemoveKernel();
}

Status InitOpKernel(OpKernel& kernel, void* state, const OrtKernelInfo* info) {
  const OrtEp* ep = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().ep_api->KernelInfo_GetEp(info, &ep));
  kernel.op_ = static_cast<const Operator*>(state);
  if (ep != nullptr) {
    kernel.gpu_ = static_cast<const Provider*>(ep)->gpu();
    kernel.state_ = static_cast<const Provider*>(ep)->state();
  }
  if (kernel.gpu_ == nullptr) {
    return {StatusCode::kInternal, std::string(kernel.op_->op) + ": the session is on no card"};
  }
  kernel.gpu_->AddKernel();
  return kernel.Init(OpInfo(info, *kernel.op_));
}

Status OpKernel::Find(const char* family, const char* t0, const char* t1, const char* entry,
                      DeviceFunction* function) const {
  Result<DeviceFunction> found = gpu_->card().kernels().Get(family, t0, t1, entry);
  if (!found.ok()) {
    return {found.status().code(), std::string(op_->op) + ": " +
                                       std::string(found.status().message()) +
                                       "; with claim=gemm a session needs no such kernels"};
  }
  *function = std::move(found).value();
  return Status::Ok();
}

OrtStatus* OpKernel::ComputeImpl(OrtKernelImpl* self, OrtKernelContext* context) noexcept {
  HappensAfter(self);  // what made it
  OrtStatus* status = Guard([&]() -> Status {
    const auto& kernel = *static_cast<OpKernel*>(self);
    Result<const DeviceQueue*> queue = kernel.gpu_->QueueOf(context);
    if (!queue.ok()) return queue.TakeStatus();
    OpContext call(context, *kernel.gpu_, *queue.value(), *kernel.op_);
    return kernel.Compute(call);
  });
  static_cast<OpKernel*>(self)->gpu_->CountCall(status == nullptr);
  HappensBefore(&self->ort_version_supported);
  return status;
}

void OpKernel::ReleaseImpl(OrtKernelImpl* self) noexcept {
  HappensAfter(&self->ort_version_supported);  // every Compute
  delete static_cast<OpKernel*>(self);
}

}  // namespace tunableop
