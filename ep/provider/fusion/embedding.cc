#include "provider/fusion/embedding.h"

#include <array>

#include "kernels/embed_norm_launch.h"
#include "provider/kernels/element.h"

namespace tunableop {
namespace {

constexpr size_t kMostParts = 3;

bool IsWhole(ONNXTensorElementDataType type) {
  return type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
}

// Takes the sum apart: what nobody else reads, and the whole.
class Collector {
 public:
  Collector(const GraphIndex& graph, EmbeddingParts& found)
      : graph_(graph), found_(found), columns_(found.norm.gamma.dims[0]) {}

  bool Take(const ValueView& value, bool whole) {
    const std::optional<size_t> maker = graph_.Producer(value.name);
    if (maker && (whole || graph_.OnlyConsumer(value.name))) {
      const NodeView& node = graph_.node(*maker);
      if (Is(graph_, *maker, "Add")) {
        found_.norm.members.push_back(*maker);
        return Take(node.inputs()[0], false) && Take(node.inputs()[1], false);
      }
      if (Is(graph_, *maker, "Gather") && IsPicked(node)) {
        found_.norm.members.push_back(*maker);
        ++picked_;
        return Put({node.inputs()[0], node.inputs()[1]});
      }
    }
    return !value.dims.empty() && value.dims.back() == columns_ && Put({value, {}});
  }

  size_t picked() const noexcept { return picked_; }

 private:
  bool Put(EmbeddingParts::Part part) {
    if (part.table.type != found_.norm.gamma.type) return false;
    found_.parts.push_back(std::move(part));
    return found_.parts.size() <= kMostParts;
  }

  bool IsPicked(const NodeView& node) const {
    const ValueView& table = node.inputs()[0];
    const int64_t axis = node.Int("axis", 0);
    return table.dims.size() == 2 && table.dims[1] == columns_ && (axis == 0 || axis == -2) &&
           IsWhole(node.InputType(1));
  }

  const GraphIndex& graph_;
  EmbeddingParts& found_;
  const int64_t columns_;
  size_t picked_ = 0;
};

class FusedEmbedding final : public FusedKernel {
 public:
  Status Init(const FusedInfo& info) override {
    const std::optional<EmbeddingParts> found = MatchWhole(info.graph(), &MatchEmbedding);
    if (!found) return NotThePattern(info);
    count_ = found->parts.size();
    for (size_t i = 0; i < count_; ++i) {
      tables_[i] = info.Input(found->parts[i].table.name);
      if (found->parts[i].places.present()) places_[i] = info.Input(found->parts[i].places.name);
    }
    const NormParts& norm = found->norm;
    gamma_ = info.Input(norm.gamma.name);
    if (norm.beta.present()) beta_ = info.Input(norm.beta.name);
    out_ = info.Output(norm.out);
    sum_ = info.Output(norm.x.name);
    columns_ = norm.gamma.dims[0];
    epsilon_ = norm.epsilon;
    bytes_ = ElementBytes(norm.gamma.type);
    const char* type = ModuleType(norm.gamma.type);
    return Find(info, "embed_norm", type, type, norm.mean ? "embed_layer_norm" : "embed_rms_norm",
                &function_);
  }

  Status Compute(OpContext& context) const override {
    device::EmbedNormTensors tensors;
    std::array<device::DimsView, kMostParts> shapes{};
    for (size_t i = 0; i < count_; ++i) {
      DeviceTensor table;
      DeviceTensor places;
      TUNABLEOP_RETURN_IF_ERROR(Read(context, tables_[i], table));
      TUNABLEOP_RETURN_IF_ERROR(Read(context, places_[i], places));
      if (table.dims.empty() || table.dims.back() != columns_) {
        return context.TooManyDims({table.dims});
      }
      device::EmbedNormTensors::Part& part = tensors.parts[i];
      part.table = table.data;
      part.rows = table.dims[0];
      part.places = places.data;
      part.narrow = places.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
      part.dims = places.present() ? places.dims : table.dims.first(table.dims.size() - 1);
      shapes[i] = part.dims;
    }
    std::optional<device::Dims> dims = device::BroadcastDims(shapes);
    if (!dims || dims->rank() == device::Dims::kMost) {
      return context.TooManyDims({shapes[0], shapes[1], shapes[2]});
    }
    dims->Append(columns_);
    DeviceTensor gamma;
    DeviceTensor beta;
    DeviceTensor out;
    DeviceTensor sum;
    TUNABLEOP_RETURN_IF_ERROR(Read(context, gamma_, gamma));
    TUNABLEOP_RETURN_IF_ERROR(Read(context, beta_, beta));
    TUNABLEOP_RETURN_IF_ERROR(Make(context, out_, dims->view(), out));
    TUNABLEOP_RETURN_IF_ERROR(Make(context, sum_, dims->view(), sum));
    if (out.elements() == 0) return Status::Ok();
    tensors.gamma = gamma.data;
    tensors.beta = beta.data;
    tensors.out = out.data;
    tensors.sum = sum.data;
    const auto call = device::PrepareEmbedNorm(tensors, columns_, epsilon_, bytes_);
    if (!call) return context.TooManyDims({shapes[0], shapes[1], shapes[2]});
    return context.Launch(function_, *call);
  }

 private:
  DeviceFunction function_;
  size_t count_ = 0;
  std::array<size_t, kMostParts> tables_{};
  std::array<size_t, kMostParts> places_{FusedInfo::kAbsent, FusedInfo::kAbsent,
                                         FusedInfo::kAbsent};
  size_t gamma_ = FusedInfo::kAbsent;
  size_t beta_ = FusedInfo::kAbsent;
  size_t out_ = FusedInfo::kAbsent;
  size_t sum_ = FusedInfo::kAbsent;
  int64_t columns_ = 0;
  double epsilon_ = 0;
  size_t bytes_ = 0;
};

std::optional<Group> FindEmbedding(const GraphIndex& graph, size_t last) {
  const std::optional<EmbeddingParts> parts = MatchEmbedding(graph, last);
  if (!parts) return std::nullopt;
  const char* type = ModuleType(parts->norm.gamma.type);
  return Group{parts->norm.members, {{"embed_norm", type, type}}};
}

}  // namespace

std::optional<EmbeddingParts> MatchEmbedding(const GraphIndex& graph, size_t last) {
  std::optional<NormParts> norm = MatchNorm(graph, last);
  if (!norm || norm->gamma.dims[0] < 1 ||
      norm->gamma.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE ||
      (norm->beta.present() && norm->beta.dims != norm->gamma.dims)) {
    return std::nullopt;
  }
  EmbeddingParts found;
  found.norm = *std::move(norm);
  const ValueView sum = found.norm.x;
  Collector collector(graph, found);
  if (!collector.Take(sum, true) || collector.picked() == 0 ||
      !Closed(graph, found.norm.members, {sum.name, found.norm.out})) {
    return std::nullopt;
  }
  return found;
}

Fusion EmbeddingFusion() noexcept {
  return {{.op = "Gather+Norm"}, &FindEmbedding, +[]() -> std::unique_ptr<FusedKernel> {
            return std::make_unique<FusedEmbedding>();
          }};
}

}  // namespace tunableop
