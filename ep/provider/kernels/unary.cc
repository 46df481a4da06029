// Elementwise operators of one input.
#include <algorithm>
#include <limits>
#include <string_view>

#include "kernels/unary_launch.h"
#include "provider/kernels/element.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

constexpr struct {
  std::string_view op;
  const char* entry;
} kEntries[] = {
    {"Abs", "unary_abs"},
    {"Ceil", "unary_ceil"},
    {"Celu", "unary_celu"},
    {"Cos", "unary_cos"},
    {"Elu", "unary_elu"},
    {"Erf", "unary_erf"},
    {"Exp", "unary_exp"},
    {"FastGelu", "unary_gelu_tanh"},
    {"Floor", "unary_floor"},
    {"Gelu", "unary_gelu"},
    {"HardSigmoid", "unary_hard_sigmoid"},
    {"HardSwish", "unary_hard_swish"},
    {"IsInf", "unary_isinf"},
    {"IsNaN", "unary_isnan"},
    {"LeakyRelu", "unary_leaky_relu"},
    {"Log", "unary_log"},
    {"Mish", "unary_mish"},
    {"Neg", "unary_neg"},
    {"Not", "unary_not"},
    {"QuickGelu", "unary_quick_gelu"},
    {"Reciprocal", "unary_reciprocal"},
    {"Relu", "unary_relu"},
    {"Round", "unary_round"},
    {"Selu", "unary_selu"},
    {"Sigmoid", "unary_sigmoid"},
    {"Sign", "unary_sign"},
    {"Sin", "unary_sin"},
    {"Softplus", "unary_softplus"},
    {"Softsign", "unary_softsign"},
    {"Sqrt", "unary_sqrt"},
    {"Swish", "unary_quick_gelu"},
    {"Tanh", "unary_tanh"},
    {"ThresholdedRelu", "unary_thresholded_relu"},
};

class Unary : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    const std::string_view op = info.op().op;
    const char* entry = "";
    for (const auto& row : kEntries) {
      if (row.op == op) entry = row.entry;
    }
    if (op == "Gelu" && info.String("approximate", "none") == "tanh") entry = "unary_gelu_tanh";
    if (op == "LeakyRelu") alpha_ = info.Float("alpha", 0.01F);
    if (op == "Elu" || op == "Swish" || op == "Celu" || op == "ThresholdedRelu") {
      alpha_ = info.Float("alpha", 1.0F);
    }
    if (op == "QuickGelu") alpha_ = info.Float("alpha", 1.702F);
    if (op == "HardSigmoid") {
      alpha_ = info.Float("alpha", 0.2F);
      beta_ = info.Float("beta", 0.5F);
    }
    if (op == "Selu") {
      alpha_ = info.Float("alpha", 1.67326319217681884765625F);
      beta_ = info.Float("gamma", 1.05070102214813232421875F);
    }
    if (op == "HardSwish") {
      alpha_ = 1.0 / 6.0;
      beta_ = 0.5;
    }
    if (op == "IsInf") {
      alpha_ = static_cast<double>(info.Int("detect_negative", 1));
      beta_ = static_cast<double>(info.Int("detect_positive", 1));
    }
    return FindEntry(info, entry);
  }

  Status Compute(OpContext& context) const override { return Run(context, alpha_, beta_, 0, 0); }

 protected:
  Status FindEntry(const OpInfo& info, const char* entry) {
    const ONNXTensorElementDataType in = info.InputType(0);
    const ONNXTensorElementDataType out = info.OutputType(0);
    in_bytes_ = ElementBytes(in);
    out_bytes_ = ElementBytes(out);
    return Find("unary", ModuleType(in), ModuleType(out), entry, &function_);
  }

  Status Run(const OpContext& context, double alpha, double beta, int64_t low, int64_t high) const {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    Result<DeviceTensor> output = context.Output(0, input.value().dims);
    if (!output.ok()) return output.TakeStatus();
    const int64_t count = input.value().elements();
    if (count == 0) return Status::Ok();
    auto call =
        device::PrepareUnary(input.value().data, output.value().data, count, in_bytes_, out_bytes_);
    call.args.alpha = alpha;
    call.args.beta = beta;
    call.args.low = low;
    call.args.high = high;
    return context.Launch(function_, call);
  }

 private:
  DeviceFunction function_;
  size_t in_bytes_ = 0;
  size_t out_bytes_ = 0;
  double alpha_ = 0;
  double beta_ = 0;
};

// The limits are attributes, from opset 11 on inputs in the host's memory.
class Clip final : public Unary {
 public:
  Status Init(const OpInfo& info) override {
    min_ = info.Float("min", -std::numeric_limits<float>::infinity());
    max_ = info.Float("max", std::numeric_limits<float>::infinity());
    return FindEntry(info, "unary_clip");
  }

  Status Compute(OpContext& context) const override {
    Limit low{min_, std::numeric_limits<int64_t>::min()};
    Limit high{max_, std::numeric_limits<int64_t>::max()};
    TUNABLEOP_RETURN_IF_ERROR(Read(context, 1, low));
    TUNABLEOP_RETURN_IF_ERROR(Read(context, 2, high));
    return Run(context, low.real, high.real, low.whole, high.whole);
  }

 private:
  struct Limit {
    double real;
    int64_t whole;
  };

  static Status Read(const OpContext& context, size_t index, Limit& limit) {
    Result<DeviceTensor> input = context.Input(index);
    if (!input.ok()) return input.TakeStatus();
    const DeviceTensor& tensor = input.value();
    if (!tensor.present()) return Status::Ok();
    if (tensor.elements() != 1) {
      return context.Error(StatusCode::kInvalidArgument, "min and max must be scalars");
    }
    limit.real = HostNumber(tensor);
    limit.whole = HostInteger(tensor);
    return Status::Ok();
  }

  double min_ = 0;
  double max_ = 0;
};

}  // namespace

OrtStatus* CreateClip(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Clip>(state, info, kernel);
}
OrtStatus* CreateUnary(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Unary>(state, info, kernel);
}

}  // namespace tunableop
