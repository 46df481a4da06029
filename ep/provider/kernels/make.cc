// Operators that make tensors out of few numbers on the host: Range, ConstantOfShape.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/fill_launch.h"
#include "kernels/range_launch.h"
#include "provider/kernels/element.h"
#include "provider/kernels/matmul_shape.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"
#include "provider/ort_runtime.h"

namespace tunableop {
namespace {

class Range final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    const ONNXTensorElementDataType type = info.InputType(0);
    whole_ =
        type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
    return Find("range", ModuleType(type), ModuleType(type), "range", &function_);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 3> given;
    for (size_t i = 0; i < given.size(); ++i) {
      Result<DeviceTensor> input = context.Input(i);
      if (!input.ok()) return input.TakeStatus();
      given[i] = input.value();
      if (given[i].elements() != 1) {
        return context.Error(StatusCode::kInvalidArgument, "its inputs must be scalars");
      }
    }
    const std::optional<int64_t> count =
        whole_ ? Steps(HostInteger(given[0]), HostInteger(given[1]), HostInteger(given[2]))
               : Steps(HostNumber(given[0]), HostNumber(given[1]), HostNumber(given[2]));
    if (!count) {
      return context.Error(StatusCode::kInvalidArgument, "delta is 0, or there is no end to it");
    }
    const std::array<int64_t, 1> dims{*count};
    Result<DeviceTensor> output = context.Output(0, dims);
    if (!output.ok()) return output.TakeStatus();
    if (*count == 0) return Status::Ok();
    void* const out = output.value().data;
    return context.Launch(
        function_,
        whole_
            ? device::PrepareWholeRange(out, *count, HostInteger(given[0]), HostInteger(given[2]))
            : device::PrepareRange(out, *count, HostNumber(given[0]), HostNumber(given[2])));
  }

 private:
  static std::optional<int64_t> Steps(double start, double limit, double delta) noexcept {
    constexpr double kMost = 1e18;
    const double count = std::ceil((limit - start) / delta);
    if (delta == 0.0 || !(count < kMost)) return std::nullopt;
    return count > 0.0 ? static_cast<int64_t>(count) : 0;
  }
  // Without a difference that int64 cannot hold.
  static std::optional<int64_t> Steps(int64_t start, int64_t limit, int64_t delta) noexcept {
    if (delta == 0) return std::nullopt;
    if (delta > 0 ? limit <= start : limit >= start) return 0;
    const auto from = static_cast<uint64_t>(start);
    const auto to = static_cast<uint64_t>(limit);
    const uint64_t span = delta > 0 ? to - from : from - to;
    const auto step =
        delta > 0 ? static_cast<uint64_t>(delta) : uint64_t{0} - static_cast<uint64_t>(delta);
    const uint64_t count = (span - 1) / step + 1;
    if (count > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(count);
  }

  DeviceFunction function_;
  bool whole_ = false;
};

class ConstantOfShape final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    const ONNXTensorElementDataType type = info.OutputType(0);
    TUNABLEOP_RETURN_IF_ERROR(info.Element("value", type, &bits_));
    return Find("fill", WidthType(type), WidthType(type), "fill", &function_);
  }

  Status Compute(OpContext& context) const override {
    Result<std::optional<std::vector<int64_t>>> shape = context.HostInts(0);
    if (!shape.ok()) return shape.TakeStatus();
    const std::vector<int64_t> dims = std::move(shape).value().value_or(std::vector<int64_t>());
    for (const int64_t dim : dims) {
      if (dim < 0) {
        return context.Error(StatusCode::kInvalidArgument, DimsText(dims) + " is no shape");
      }
    }
    Result<DeviceTensor> output = context.Output(0, dims);
    if (!output.ok()) return output.TakeStatus();
    const int64_t count = output.value().elements();
    if (count == 0) return Status::Ok();
    return context.Launch(function_, device::PrepareFill(output.value().data, count, bits_));
  }

 private:
  DeviceFunction function_;
  uint64_t bits_ = 0;
};

}  // namespace

OrtStatus* CreateConstantOfShape(void* state, const OrtKernelInfo* info,
                                 OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<ConstantOfShape>(state, info, kernel);
}
OrtStatus* CreateRange(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Range>(state, info, kernel);
}

}  // namespace tunableop
