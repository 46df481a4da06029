#include "provider/fusion/shape_scalar.h"

#include <array>
#include <string>

#include "kernels/binary_launch.h"
#include "kernels/fill_launch.h"
#include "provider/fusion/shape_scalar_match.h"
#include "provider/kernels/binary.h"
#include "provider/kernels/element.h"
#include "provider/kernels/kernel.h"
#include "provider/kernels/scratch.h"

namespace tunableop {
namespace {

// The number is put into memory on the card: what it is applied by are the kernels of the nodes.
class FusedShapeScalar final : public FusedKernel {
 public:
  Status Init(const FusedInfo& info) override {
    const GraphIndex& graph = info.graph();
    std::optional<ShapeScalar> found = MatchWhole(graph, &MatchShapeScalar);
    if (!found) return NotThePattern(info);
    gpu_ = info.gpu();
    for (const std::string_view source : found->sources) sources_.push_back(info.Input(source));
    for (const ShapeScalar::End& end : found->ends) {
      const NodeView& node = graph.node(end.node);
      Applied& applied = ends_.emplace_back();
      applied.tensor = info.Input(node.inputs()[1 - end.scalar].name);
      applied.output = info.Output(node.outputs()[0].name);
      applied.scalar_first = end.scalar == 0;
      const char* type = ModuleType(node.InputType(0));
      TUNABLEOP_RETURN_IF_ERROR(
          Find(info, "binary", type, type, BinaryEntry(node.op()), &applied.function));
      type_ = node.InputType(0);
    }
    for (const size_t input : sources_) {
      if (input == FusedInfo::kAbsent) return NotThePattern(info);
    }
    steps_ = std::move(found->steps);
    for (ScalarStep& step : steps_) {  // the graph's names do not outlive it
      step.op = step.kind == ScalarStep::Kind::kUnary || step.kind == ScalarStep::Kind::kBinary
                    ? StaticName(step.op)
                    : std::string_view();
    }
    return Find(info, "fill", WidthType(type_), WidthType(type_), "fill", &fill_);
  }

  Status Compute(OpContext& context) const override {
    std::vector<std::vector<int64_t>> shapes;
    for (const size_t input : sources_) {
      Result<DeviceTensor> source = context.Input(input);
      if (!source.ok()) return source.TakeStatus();
      shapes.emplace_back(source.value().dims.begin(), source.value().dims.end());
    }
    const std::optional<double> number = Evaluate(steps_, shapes);
    if (!number) {
      return context.Error(StatusCode::kInvalidArgument,
                           "a tensor has not as many dimensions as the model says");
    }
    const size_t bytes = ElementBytes(type_);
    const Scratch scalar(*gpu_->memory(), bytes, context.stream());
    if (scalar.data() == nullptr) return NoMemory(*gpu_);
    TUNABLEOP_RETURN_IF_ERROR(
        context.Launch(fill_, device::PrepareFill(scalar.data(), 1, ElementBits(*number, type_))));
    for (const Applied& end : ends_) {
      Result<DeviceTensor> tensor = context.Input(end.tensor);
      if (!tensor.ok()) return tensor.TakeStatus();
      const DeviceTensor& x = tensor.value();
      Result<DeviceTensor> output = context.Output(end.output, x.dims);
      if (!output.ok()) return output.TakeStatus();
      if (x.elements() == 0) continue;
      void* const out = output.value().data;
      const device::DimsView none;
      const auto call =
          end.scalar_first
              ? device::PrepareBinary(scalar.data(), none, x.data, x.dims, out, bytes, bytes)
              : device::PrepareBinary(x.data, x.dims, scalar.data(), none, out, bytes, bytes);
      if (!call) return context.TooManyDims({x.dims});
      TUNABLEOP_RETURN_IF_ERROR(context.Launch(end.function, *call));
    }
    return Status::Ok();
  }

 private:
  struct Applied {
    DeviceFunction function;
    size_t tensor = 0;
    size_t output = 0;
    bool scalar_first = false;
  };

  static std::string_view StaticName(std::string_view op) noexcept {
    for (const std::string_view known :
         {"Add", "Div", "Mul", "Pow", "Sub", "Neg", "Reciprocal", "Sqrt"}) {
      if (known == op) return known;
    }
    return {};
  }

  std::shared_ptr<GpuSession> gpu_;
  std::vector<ScalarStep> steps_;
  std::vector<size_t> sources_;
  std::vector<Applied> ends_;
  DeviceFunction fill_;
  ONNXTensorElementDataType type_ = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
};

std::optional<Group> FindShapeScalar(const GraphIndex& graph, size_t last) {
  const std::optional<ShapeScalar> found = MatchShapeScalar(graph, last);
  if (!found) return std::nullopt;
  const ONNXTensorElementDataType type = graph.node(last).InputType(0);
  const char* const width = WidthType(type);
  return Group{found->nodes(),
               {{"binary", ModuleType(type), ModuleType(type)}, {"fill", width, width}},
               found->chain};
}

}  // namespace

Fusion ShapeScalarFusion() noexcept {
  return {{.op = "Shape+Scale"}, &FindShapeScalar, +[]() -> std::unique_ptr<FusedKernel> {
            return std::make_unique<FusedShapeScalar>();
          }};
}

}  // namespace tunableop
