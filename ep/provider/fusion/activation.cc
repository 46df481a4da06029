#include "provider/fusion/activation.h"

#include <algorithm>
#include <array>

#include "kernels/bias_act_launch.h"
#include "kernels/binary_launch.h"
#include "kernels/copy_launch.h"
#include "provider/fusion/activation_parts.h"
#include "provider/kernels/axes.h"
#include "provider/kernels/element.h"

namespace tunableop {
namespace {

using Matcher = std::optional<ActivationParts> (*)(const GraphIndex& graph, size_t last);

template <Matcher kMatch>
std::optional<Group> Find(const GraphIndex& graph, size_t last) {
  const std::optional<ActivationParts> parts = kMatch(graph, last);
  if (!parts) return std::nullopt;
  const char* type = ModuleType(parts->x.type);
  Group group{parts->members, {{"bias_act", type, type}}};
  if (parts->gate.present()) {
    const char* width = WidthType(parts->x.type);
    group.modules.push_back({"binary", type, type});
    group.modules.push_back({"copy", width, width});
  }
  return group;
}

template <Matcher kMatch>
class FusedActivation final : public FusedKernel {
 public:
  Status Init(const FusedInfo& info) override {
    const std::optional<ActivationParts> found = MatchWhole(info.graph(), kMatch);
    if (!found) return NotThePattern(info);
    x_ = info.Input(found->x.name);
    if (found->bias.present()) bias_ = info.Input(found->bias.name);
    if (found->gate.present()) gate_ = info.Input(found->gate.name);
    alpha_ = found->alpha;
    bytes_ = ElementBytes(found->x.type);
    const char* type = ModuleType(found->x.type);
    if (found->gate.present()) {
      const char* width = WidthType(found->x.type);
      TUNABLEOP_RETURN_IF_ERROR(FusedKernel::Find(info, "binary", type, type, "binary_mul", &mul_));
      TUNABLEOP_RETURN_IF_ERROR(FusedKernel::Find(info, "copy", width, width, "copy", &expand_));
    }
    return FusedKernel::Find(info, "bias_act", type, type, EntryOf(found->curve), &act_);
  }

  Status Compute(OpContext& context) const override {
    DeviceTensor x;
    DeviceTensor bias;
    DeviceTensor gate;
    TUNABLEOP_RETURN_IF_ERROR(Read(context, x_, x));
    TUNABLEOP_RETURN_IF_ERROR(Read(context, bias_, bias));
    TUNABLEOP_RETURN_IF_ERROR(Read(context, gate_, gate));
    const bool alike = !gate.present() || std::ranges::equal(x.dims, gate.dims);
    device::Dims dims(x.dims);
    if (!alike) {
      const std::array<device::DimsView, 2> shapes{x.dims, gate.dims};
      const std::optional<device::Dims> both = device::BroadcastDims(shapes);
      if (!both) return context.TooManyDims({x.dims, gate.dims});
      dims = *both;
    }
    Result<DeviceTensor> made = context.Output(0, dims.view());
    if (!made.ok()) return made.TakeStatus();
    const DeviceTensor& out = made.value();
    if (out.elements() == 0) return Status::Ok();
    if (alike) return Act(context, x.data, x.dims, bias, gate.data, out.data);

    // A gate of another shape is for a kernel of its own, and an x that is the smaller of the two
    // is spread before.
    const void* from = x.data;
    if (!std::ranges::equal(x.dims, out.dims)) {
      const auto expand = device::PrepareExpand(x.data, x.dims, out.data, out.dims, bytes_);
      if (!expand) return context.TooManyDims({x.dims, gate.dims});
      TUNABLEOP_RETURN_IF_ERROR(context.Launch(expand_, *expand));
      from = out.data;
    }
    TUNABLEOP_RETURN_IF_ERROR(Act(context, from, out.dims, bias, nullptr, out.data));
    const auto mul =
        device::PrepareBinary(out.data, out.dims, gate.data, gate.dims, out.data, bytes_, bytes_);
    if (!mul) return context.TooManyDims({x.dims, gate.dims});
    return context.Launch(mul_, *mul);
  }

 private:
  // `x` and what `out` points to are of dimensions `dims`.
  Status Act(const OpContext& context, const void* x, std::span<const int64_t> dims,
             const DeviceTensor& bias, const void* gate, void* out) const {
    const int64_t columns = dims.empty() ? 1 : dims.back();
    if (bias.present() && bias.elements() != columns) {
      return context.TooManyDims({dims, bias.dims});
    }
    device::BiasActTensors tensors;
    tensors.x = x;
    tensors.x_stride = columns;
    tensors.bias = bias.data;
    tensors.gate = gate;
    tensors.gate_stride = columns;
    tensors.out = out;
    return context.Launch(
        act_, device::PrepareBiasAct(tensors, ProductOf(dims) / columns, columns, alpha_, bytes_));
  }

  DeviceFunction act_;
  DeviceFunction mul_;
  DeviceFunction expand_;
  size_t x_ = FusedInfo::kAbsent;
  size_t bias_ = FusedInfo::kAbsent;
  size_t gate_ = FusedInfo::kAbsent;
  double alpha_ = 1.0;
  size_t bytes_ = 0;
};

template <Matcher kMatch>
Fusion FusionNamed(const char* name) noexcept {
  return {{.op = name}, &Find<kMatch>, +[]() -> std::unique_ptr<FusedKernel> {
            return std::make_unique<FusedActivation<kMatch>>();
          }};
}

}  // namespace

Fusion GatedActivationFusion() noexcept {
  return FusionNamed<&MatchGatedActivation>("Activation+Mul");
}
Fusion BiasActivationFusion() noexcept {
  return FusionNamed<&MatchBiasActivation>("Add+Activation");
}
Fusion ActivationFusion() noexcept { return FusionNamed<&MatchActivation>("Activation"); }

}  // namespace tunableop
