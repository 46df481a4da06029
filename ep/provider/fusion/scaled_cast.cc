#include "provider/fusion/scaled_cast.h"

#include "provider/fusion/expression.h"
#include "provider/kernels/element.h"

namespace tunableop {
namespace {

class FusedScaledCast final : public FusedKernel {
 public:
  Status Init(const FusedInfo& info) override {
    const std::optional<ScaledCastParts> found = MatchWhole(info.graph(), &MatchScaledCast);
    if (!found) return NotThePattern(info);
    x_ = info.Input(found->x.name);
    scaling_ = found->scaling;
    in_bytes_ = ElementBytes(found->x.type);
    out_bytes_ = ElementBytes(found->out.type);
    return Find(info, "cast", ModuleType(found->x.type), ModuleType(found->out.type), "cast_scaled",
                &function_);
  }

  Status Compute(OpContext& context) const override {
    DeviceTensor x;
    TUNABLEOP_RETURN_IF_ERROR(Read(context, x_, x));
    DeviceTensor out;
    TUNABLEOP_RETURN_IF_ERROR(Make(context, 0, x.dims, out));
    if (x.elements() == 0) return Status::Ok();
    return context.Launch(function_, device::PrepareCastScaled(x.data, out.data, x.elements(),
                                                               in_bytes_, out_bytes_, scaling_));
  }

 private:
  DeviceFunction function_;
  size_t x_ = FusedInfo::kAbsent;
  device::CastScaling scaling_;
  size_t in_bytes_ = 0;
  size_t out_bytes_ = 0;
};

std::optional<Group> FindScaledCast(const GraphIndex& graph, size_t last) {
  const std::optional<ScaledCastParts> parts = MatchScaledCast(graph, last);
  if (!parts) return std::nullopt;
  return Group{parts->members, {{"cast", ModuleType(parts->x.type), ModuleType(parts->out.type)}}};
}

}  // namespace

std::optional<ScaledCastParts> MatchScaledCast(const GraphIndex& graph, size_t last) {
  if (!Is(graph, last, "Mul")) return std::nullopt;
  const std::optional<ScalarOperand> scale = NumberBeside(graph, last);
  if (!scale) return std::nullopt;
  const std::string_view sum = graph.node(last).inputs()[scale->other].name;
  const std::optional<size_t> sub = ProducerOf(graph, sum, "Sub");
  const std::optional<size_t> maker = sub ? sub : ProducerOf(graph, sum, "Add");
  const std::optional<ScalarOperand> shift = maker ? NumberBeside(graph, *maker) : std::nullopt;
  if (!shift) return std::nullopt;
  const std::optional<size_t> cast =
      ProducerOf(graph, graph.node(*maker).inputs()[shift->other].name, "Cast");
  if (!cast) return std::nullopt;
  ScaledCastParts parts;
  parts.x = graph.node(*cast).inputs()[0];
  parts.out = graph.node(last).outputs()[0];
  parts.scaling.scale = scale->value;
  parts.scaling.shift = sub && shift->at == 1 ? -shift->value : shift->value;
  parts.scaling.sign = sub && shift->at == 0 ? -1.0 : 1.0;
  parts.members = {last, *maker, *cast};
  if (parts.x.type == parts.out.type || *ModuleType(parts.x.type) == '\0' ||
      !IsFloating(parts.out.type) || !Closed(graph, parts.members, {parts.out.name})) {
    return std::nullopt;
  }
  return parts;
}

Fusion ScaledCastFusion() noexcept {
  return {{.op = "Cast+Mul"}, &FindScaledCast, +[]() -> std::unique_ptr<FusedKernel> {
            return std::make_unique<FusedScaledCast>();
          }};
}

}  // namespace tunableop
