#include "provider/fusion/masked_softmax.h"

#include <algorithm>
#include <array>

#include "kernels/copy_launch.h"
#include "kernels/softmax_launch.h"
#include "provider/fusion/expression.h"
#include "provider/kernels/axes.h"
#include "provider/kernels/element.h"

namespace tunableop {
namespace {

constexpr int kOneDimension = 13;  // opset since which a softmax is of one dimension
constexpr ONNXTensorElementDataType kBool = ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL;

bool IsOverRows(const NodeView& node) {
  const int64_t axis = node.Int("axis", node.version() < kOneDimension ? 1 : -1);
  const size_t rank = node.inputs()[0].dims.size();
  return axis == -1 || (rank > 0 && AxisOf(axis, rank) == rank - 1);
}

// Goes from the last of `nodes` to the one that makes its input.
bool TakeProducer(const GraphIndex& graph, std::string_view op, std::vector<size_t>& nodes) {
  const std::optional<size_t> maker =
      ProducerOf(graph, graph.node(nodes.back()).inputs()[0].name, op);
  if (maker) nodes.push_back(*maker);
  return maker.has_value();
}

// A product, scaled or not. In the graph of a group it comes from outside.
bool TakeScores(const GraphIndex& graph, std::string_view value, MaskedSoftmaxParts& parts) {
  const Factors factors = FactorsOf(graph, value);
  if (factors.values.size() != 1) return false;
  const std::optional<size_t> maker = graph.Producer(factors.values[0]);
  const ValueView* x = ViewOf(graph, factors.values[0]);
  if ((maker && !Is(graph, *maker, "MatMul")) || x == nullptr || x->constant || x->dims.empty()) {
    return false;
  }
  parts.x = *x;
  parts.scale = factors.scale;
  Append(parts.members, factors.nodes);
  return true;
}

// The mask cannot give the scores other dimensions, as far as they are known.
bool Fits(const ValueView& mask, const ValueView& x) {
  if (mask.dims.size() > x.dims.size()) return false;
  for (size_t d = 1; d <= mask.dims.size(); ++d) {
    const int64_t own = mask.dims[mask.dims.size() - d];
    const int64_t dim = x.dims[x.dims.size() - d];
    if (own > 1 && dim > 0 && own != dim) return false;
  }
  return true;
}

bool TakeSum(const GraphIndex& graph, size_t add, MaskedSoftmaxParts& parts) {
  const std::vector<ValueView>& inputs = graph.node(add).inputs();
  // Both may look like scores in the graph of a group: those that are scaled are, or the larger.
  const auto size = [](const MaskedSoftmaxParts& one) {
    const auto ones = std::count(one.x.dims.begin(), one.x.dims.end(), 1);
    return std::pair(one.members.size(), static_cast<std::ptrdiff_t>(one.x.dims.size()) - ones);
  };
  for (const size_t i : {size_t{0}, size_t{1}}) {
    MaskedSoftmaxParts one;
    one.members.assign(1, add);
    one.mask = inputs[1 - i];
    if (!TakeScores(graph, inputs[i].name, one) || !Fits(one.mask, one.x)) continue;
    if (!parts.x.present() || size(one) > size(parts)) parts = std::move(one);
  }
  return parts.x.present();
}

bool TakeChoice(const GraphIndex& graph, size_t where, MaskedSoftmaxParts& parts) {
  const std::vector<ValueView>& inputs = graph.node(where).inputs();
  for (const size_t i : {size_t{1}, size_t{2}}) {
    const ValueView& other = inputs[3 - i];
    const std::optional<double> number = other.ConstantNumber();
    if (!number || other.dims.size() > 1) continue;
    parts.members.assign(1, where);
    parts.mask = inputs[0];
    parts.flags = true;
    parts.inverted = i == 2;
    parts.hidden = *number;
    if (TakeScores(graph, inputs[i].name, parts) && Fits(parts.mask, parts.x)) return true;
  }
  return false;
}

class FusedMaskedSoftmax final : public FusedKernel {
 public:
  Status Init(const FusedInfo& info) override {
    const std::optional<MaskedSoftmaxParts> found = MatchWhole(info.graph(), &MatchMaskedSoftmax);
    if (!found) return NotThePattern(info);
    x_ = info.Input(found->x.name);
    if (found->mask.present()) mask_ = info.Input(found->mask.name);
    options_.scale = static_cast<float>(found->scale);
    options_.hidden = static_cast<float>(found->hidden);
    options_.inverted = found->inverted;
    bytes_ = ElementBytes(found->x.type);
    const char* width = WidthType(found->x.type);
    TUNABLEOP_RETURN_IF_ERROR(Find(info, "copy", width, width, "copy", &expand_));
    const char* type = ModuleType(found->x.type);
    return Find(info, "softmax", type, found->flags ? ModuleType(kBool) : type, "softmax",
                &softmax_);
  }

  Status Compute(OpContext& context) const override {
    DeviceTensor x;
    DeviceTensor mask;
    TUNABLEOP_RETURN_IF_ERROR(Read(context, x_, x));
    TUNABLEOP_RETURN_IF_ERROR(Read(context, mask_, mask));
    const std::array<device::DimsView, 2> shapes{x.dims, mask.dims};
    const std::optional<device::Dims> dims = device::BroadcastDims(shapes);
    if (!dims) return context.TooManyDims({x.dims, mask.dims});
    Result<DeviceTensor> made = context.Output(0, dims->view());
    if (!made.ok()) return made.TakeStatus();
    const DeviceTensor& out = made.value();
    if (out.elements() == 0) return Status::Ok();
    device::SoftmaxTensors tensors;
    tensors.x = x.data;
    tensors.x_dims = out.dims;
    tensors.mask = mask.data;
    tensors.mask_dims = mask.dims;
    tensors.out = out.data;
    if (!std::ranges::equal(x.dims, out.dims)) {  // a mask that is the larger of the two
      const auto expand = device::PrepareExpand(x.data, x.dims, out.data, out.dims, bytes_);
      if (!expand) return context.TooManyDims({x.dims, mask.dims});
      TUNABLEOP_RETURN_IF_ERROR(context.Launch(expand_, *expand));
      tensors.x = out.data;
    }
    const auto call = device::PrepareSoftmax(tensors, options_, bytes_, ElementBytes(mask.type));
    if (!call) return context.TooManyDims({x.dims, mask.dims});
    return context.Launch(softmax_, *call);
  }

 private:
  DeviceFunction softmax_;
  DeviceFunction expand_;
  size_t x_ = FusedInfo::kAbsent;
  size_t mask_ = FusedInfo::kAbsent;
  device::SoftmaxOptions options_;
  size_t bytes_ = 0;
};

std::optional<Group> FindMaskedSoftmax(const GraphIndex& graph, size_t last) {
  const std::optional<MaskedSoftmaxParts> parts = MatchMaskedSoftmax(graph, last);
  if (!parts) return std::nullopt;
  const char* type = ModuleType(parts->x.type);
  const char* width = WidthType(parts->x.type);
  return Group{
      parts->members,
      {{"softmax", type, parts->flags ? ModuleType(kBool) : type}, {"copy", width, width}}};
}

}  // namespace

std::optional<MaskedSoftmaxParts> MatchMaskedSoftmax(const GraphIndex& graph, size_t last) {
  std::vector<size_t> ends{last};
  const bool wide = Is(graph, last, "Cast");  // fp32 inside
  if (wide && !TakeProducer(graph, "Softmax", ends)) return std::nullopt;
  if (!Is(graph, ends.back(), "Softmax") || !IsOverRows(graph.node(ends.back()))) {
    return std::nullopt;
  }
  if (wide && (graph.node(last).InputType(0) != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT ||
               !TakeProducer(graph, "Cast", ends))) {
    return std::nullopt;
  }
  const ValueView& input = graph.node(ends.back()).inputs()[0];
  // The kernel's scale is of fp32.
  if (!IsFloating(input.type) || input.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE ||
      input.type != graph.node(last).OutputType(0) || !graph.OnlyConsumer(input.name)) {
    return std::nullopt;
  }
  MaskedSoftmaxParts parts;
  const std::optional<size_t> maker = graph.Producer(input.name);
  if (!maker) return std::nullopt;
  if (Is(graph, *maker, "Add")) {
    if (!TakeSum(graph, *maker, parts)) return std::nullopt;
  } else if (Is(graph, *maker, "Where")) {
    if (!TakeChoice(graph, *maker, parts)) return std::nullopt;
  } else if (!TakeScores(graph, input.name, parts) || parts.members.empty()) {
    return std::nullopt;
  }
  Append(parts.members, ends);
  parts.out = graph.node(last).outputs()[0].name;
  if (!Closed(graph, parts.members, {parts.out})) return std::nullopt;
  return parts;
}

Fusion MaskedSoftmaxFusion() noexcept {
  return {{.op = "Mask+Softmax"}, &FindMaskedSoftmax, +[]() -> std::unique_ptr<FusedKernel> {
            return std::make_unique<FusedMaskedSoftmax>();
          }};
}

}  // namespace tunableop
