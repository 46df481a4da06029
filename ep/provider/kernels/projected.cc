// Attention of com.microsoft: the product that makes queries, keys and values, and attention.
#include <array>
#include <atomic>
#include <cmath>

#include "kernels/bias_act_launch.h"
#include "provider/kernels/attention_kernel.h"
#include "provider/kernels/element.h"
#include "provider/kernels/inner_product.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

enum Inputs : uint8_t { kX, kWeight, kBias, kMask, kPast, kAdded, kAll };

class Projected final : public AttentionKernel {
 public:
  Status Init(const OpInfo& info) override {
    heads_ = info.Int("num_heads", 0);
    scale_ = info.Float("scale", 0.0F);
    causal_ = info.Int("unidirectional", 0) != 0;
    const ONNXTensorElementDataType kind = info.InputType(kX);
    const char* const type = ModuleType(kind);
    const std::vector<int64_t> weight = info.InputDims(kWeight);
    const int64_t width = weight.size() == 2 ? weight[1] / 3 : 0;
    if (heads_ < 1) return {StatusCode::kInvalidArgument, "Attention: num_heads below 1"};
    TUNABLEOP_RETURN_IF_ERROR(product_.Init(info, state(), kind));
    TUNABLEOP_RETURN_IF_ERROR(Find("bias_act", type, type, "bias_add", &add_));
    TUNABLEOP_RETURN_IF_ERROR(FindMasks(info, kMask));
    return FindKernels(info, width / heads_);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, kAll> inputs;
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    const DeviceTensor& x = inputs[kX];
    const DeviceTensor& weight = inputs[kWeight];
    const int64_t columns = weight.dims.size() == 2 ? weight.dims[1] : 0;
    if (x.dims.size() != 3 || columns == 0 || columns % (3 * heads_) != 0 ||
        weight.dims[0] != x.dims[2] ||
        (inputs[kBias].present() && inputs[kBias].elements() != columns)) {
      return context.TooManyDims({x.dims, weight.dims, inputs[kBias].dims});
    }
    const std::array<int64_t, 3> dims{x.dims[0], x.dims[1], columns / 3};
    Result<DeviceTensor> output = context.Output(0, dims);
    if (!output.ok()) return output.TakeStatus();
    if (output.value().elements() == 0) return Status::Ok();
    Scratch together;
    TUNABLEOP_RETURN_IF_ERROR(
        Take(context, static_cast<size_t>(dims[0] * dims[1] * columns) * bytes(), together));
    TUNABLEOP_RETURN_IF_ERROR(Project(context, inputs, dims[0] * dims[1], together.data()));

    device::AttentionShape shape;
    shape.batches = dims[0];
    shape.heads = shape.kv_heads = heads_;
    shape.queries = shape.keys = dims[1];
    shape.size = dims[2] / heads_;
    shape.scale = scale_ != 0.0F ? scale_ : 1.0F / std::sqrt(static_cast<float>(shape.size));
    shape.causal = causal_;
    device::AttentionTensors tensors;
    // Side by side in each token.
    const device::AttentionStrides at{dims[1] * columns, columns, shape.size};
    const auto* const first = static_cast<const std::byte*>(together.data());
    const auto step = dims[2] * static_cast<int64_t>(bytes());
    tensors.q = {first, at};
    tensors.k = {first + step, at};
    tensors.v = {first + 2 * step, at};
    tensors.out = output.value().data;
    tensors.out_at = device::StridesOf(dims[1], heads_, shape.size, /*heads_outside=*/false);
    Scratch made;
    TUNABLEOP_RETURN_IF_ERROR(
        ReadMasks(context, inputs[kMask], inputs[kAdded], shape, made, tensors));
    return Attend(context, tensors, shape);
  }

 private:
  Status Project(const OpContext& context, const std::array<DeviceTensor, kAll>& inputs,
                 int64_t rows, void* out) const {
    const DeviceTensor& weight = inputs[kWeight];
    Problem problem = product_.Start();
    problem.m = rows;
    problem.k = weight.dims[0];
    problem.n = weight.dims[1];
    problem.lda = problem.k;
    problem.ldb = problem.ldc = problem.n;
    problem.b_constant = 1;
    Operands operands;
    operands.a = inputs[kX].data;
    operands.b = weight.data;
    operands.c = out;
    if (!inputs[kBias].present()) return product_.Run(context, problem, operands);
    if (has_epilogue_.load(std::memory_order_relaxed)) {
      problem.epilogue = Epilogue::kBias;
      operands.bias = inputs[kBias].data;
      Status status = product_.Run(context, problem, operands);
      if (status.code() != StatusCode::kNotSupported) return status;
      has_epilogue_.store(false, std::memory_order_relaxed);  // no library here has it
      problem.epilogue = Epilogue::kNone;
      operands.bias = nullptr;
    }
    TUNABLEOP_RETURN_IF_ERROR(product_.Run(context, problem, operands));
    device::BiasActTensors tensors;
    tensors.x = tensors.out = out;
    tensors.x_stride = problem.n;
    tensors.bias = inputs[kBias].data;
    return context.Launch(add_, device::PrepareBiasAct(tensors, rows, problem.n, 1.0, bytes()));
  }

  InnerProduct product_;
  DeviceFunction add_;
  int64_t heads_ = 0;
  float scale_ = 0.0F;
  bool causal_ = false;
  mutable std::atomic<bool> has_epilogue_{true};  // until the card's libraries say otherwise
};

}  // namespace

OrtStatus* CreateProjected(void* state, const OrtKernelInfo* info,
                           OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Projected>(state, info, kernel);
}

}  // namespace tunableop
