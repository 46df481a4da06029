// Elementwise operators of two inputs, which broadcast.
#include "provider/kernels/binary.h"

#include <array>
#include <string_view>

#include "kernels/binary_launch.h"
#include "provider/kernels/element.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

constexpr struct {
  std::string_view op;
  const char* entry;
} kEntries[] = {
    {"Add", "binary_add"},         {"And", "binary_and"},
    {"Div", "binary_div"},         {"Equal", "binary_equal"},
    {"Greater", "binary_greater"}, {"GreaterOrEqual", "binary_greater_or_equal"},
    {"Less", "binary_less"},       {"LessOrEqual", "binary_less_or_equal"},
    {"Mod", "binary_mod"},         {"Mul", "binary_mul"},
    {"Or", "binary_or"},           {"PRelu", "binary_prelu"},
    {"Pow", "binary_pow"},         {"Sub", "binary_sub"},
    {"Xor", "binary_xor"},
};

class Binary final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    const ONNXTensorElementDataType in = info.InputType(0);
    const ONNXTensorElementDataType out = info.OutputType(0);
    const std::string_view op = info.op().op;
    const char* entry = BinaryEntry(op);
    if (op == "Mod" && info.Int("fmod", 0) != 0) entry = "binary_fmod";
    in_bytes_ = ElementBytes(in);
    out_bytes_ = ElementBytes(out);
    return Find("binary", ModuleType(in), ModuleType(out), entry, &function_);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 2> inputs;
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    const auto& [a, b] = inputs;
    const std::array<device::DimsView, 2> shapes{a.dims, b.dims};
    const std::optional<device::Dims> dims = device::BroadcastDims(shapes);
    if (!dims) return context.TooManyDims({shapes[0], shapes[1]});
    Result<DeviceTensor> out = context.Output(0, dims->view());
    if (!out.ok()) return out.TakeStatus();
    if (out.value().elements() == 0) return Status::Ok();
    const auto call = device::PrepareBinary(a.data, shapes[0], b.data, shapes[1], out.value().data,
                                            in_bytes_, out_bytes_);
    if (!call) return context.TooManyDims({shapes[0], shapes[1]});
    return context.Launch(function_, *call);
  }

 private:
  DeviceFunction function_;
  size_t in_bytes_ = 0;
  size_t out_bytes_ = 0;
};

}  // namespace

const char* BinaryEntry(std::string_view op) noexcept {
  for (const auto& row : kEntries) {
    if (row.op == op) return row.entry;
  }
  return "";
}

OrtStatus* CreateBinary(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Binary>(state, info, kernel);
}

}  // namespace tunableop
