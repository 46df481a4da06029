#include "provider/fusion/projections.h"

#include <algorithm>

#include "kernels/split_columns_launch.h"
#include "provider/element_type.h"
#include "provider/kernels/element.h"
#include "provider/kernels/matmul_shape.h"
#include "provider/kernels/scratch.h"

namespace tunableop {
namespace {

constexpr size_t kCount = Projections::kCount;

// By number.
enum Form : size_t { kOneProduct, kThreeProducts };
constexpr const char* kForms[] = {"one product", "three products"};
constexpr const char* kSizes[] = {"M", "K", "N1", "N2", "N3", "biases"};
constexpr FormGroup kGroup = {"Projections", kForms, kSizes};

// Rows up to which one product and a copy usually take less time than three products do.
constexpr int64_t kFewRows = 256;

class FusedProjections final : public FusedKernel {
 public:
  Status Init(const FusedInfo& info) override {
    std::optional<ProjectionParts> found = MatchWhole(info.graph(), &MatchProjections);
    if (!found) return NotThePattern(info);
    gpu_ = info.gpu();
    const Projections& projections = found->projections;
    x_ = info.Input(projections.x.name);
    bytes_ = ElementBytes(projections.x.type);
    for (size_t i = 0; i < kCount; ++i) {
      outs_[i] = info.Output(found->outs[i]);
      columns_[i] = projections.weights[i].dims[1];
    }
    const char* width = WidthType(projections.x.type);
    TUNABLEOP_RETURN_IF_ERROR(Find(info, "split_columns", width, width, "split_columns", &split_));
    return products_.Init(info, projections);
  }

  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> x = context.Input(x_);
    if (!x.ok()) return x.TakeStatus();
    const std::span<const int64_t> dims = x.value().dims;
    if (dims.empty() || dims.size() > device::kMaxRank || dims.back() != products_.k()) {
      return context.Error(StatusCode::kInvalidArgument,
                           "A " + DimsText(dims) + " has not the inner dimension of the weights");
    }
    std::array<int64_t, device::kMaxRank> out_dims{};
    std::copy(dims.begin(), dims.end(), out_dims.begin());
    int64_t rows = 1;
    for (size_t d = 0; d + 1 < dims.size(); ++d) rows *= dims[d];
    std::array<void*, kCount> outs{};
    for (size_t i = 0; i < kCount; ++i) {
      out_dims[dims.size() - 1] = columns_[i];
      Result<DeviceTensor> out = context.Output(outs_[i], {out_dims.data(), dims.size()});
      if (!out.ok()) return out.TakeStatus();
      outs[i] = out.value().data;
    }
    if (rows == 0) return Status::Ok();
    const void* const a = x.value().data;
    std::array<FormAnswer, kCount> answers;
    for (size_t i = 0; i < kCount; ++i) answers[i] = {outs[i], rows, columns_[i]};
    Problem like;
    like.m = rows;
    like.n = products_.width();
    like.k = products_.k();
    like.a_type = like.b_type = like.c_type = products_.type();
    if (like.c_type == DataType::kFloat32) like.precision = products_.state()->options().precision;
    const FormCall call{
        {&kGroup,
         like.c_type,
         like.precision,
         {rows, like.k, columns_[0], columns_[1], columns_[2], products_.biased() ? 1 : 0},
         gpu_->graphs().enabled()},
        rows <= kFewRows ? kOneProduct : kThreeProducts,
        /*weights=*/true,
        answers,
        like,
        static_cast<size_t>(rows * products_.width()) * bytes_};
    return products_.state()->RunInForm(call, context.queue(), [&](size_t form) {
      return form == kOneProduct ? RunAsOne(context, a, rows, outs)
                                 : RunApart(context, a, rows, outs);
    });
  }

 private:
  Status RunApart(const OpContext& context, const void* a, int64_t rows,
                  const std::array<void*, kCount>& outs) const {
    for (size_t i = 0; i < kCount; ++i) {
      TUNABLEOP_RETURN_IF_ERROR(products_.RunPart(context, i, a, rows, outs[i]));
    }
    return Status::Ok();
  }

  Status RunAsOne(OpContext& context, const void* a, int64_t rows,
                  const std::array<void*, kCount>& outs) const {
    const Scratch all(*gpu_->memory(), static_cast<size_t>(rows * products_.width()) * bytes_,
                      context.stream());
    if (all.data() == nullptr) {
      return context.Error(StatusCode::kOutOfMemory, gpu_->memory()->LastFailure());
    }
    TUNABLEOP_RETURN_IF_ERROR(products_.Run(context, a, rows, all.data()));
    const auto call = device::PrepareSplitColumns(all.data(), outs, rows, columns_, bytes_);
    if (!call) return context.Error(StatusCode::kNotSupported, "2^30 columns and more");
    return context.Launch(split_, *call);
  }

  std::shared_ptr<GpuSession> gpu_;
  StackedProducts products_;
  DeviceFunction split_;
  size_t x_ = 0;
  std::array<size_t, kCount> outs_{};
  std::array<int64_t, kCount> columns_{};
  size_t bytes_ = 0;
};

// A product by a constant, and the row of biases that alone reads it, if one does.
bool AddBranch(const GraphIndex& graph, size_t matmul, size_t i, ProjectionParts& parts) {
  const NodeView& node = graph.node(matmul);
  const ValueView& weight = node.inputs()[1];
  if (!weight.constant || weight.dims.size() != 2 || weight.dims[0] < 1 || weight.dims[1] < 1 ||
      weight.type != node.inputs()[0].type || !DataTypeOf(weight.type)) {
    return false;
  }
  parts.projections.weights[i] = weight;
  parts.projections.names[i] = node.name();
  parts.outs[i] = node.outputs()[0].name;
  parts.members.push_back(matmul);
  const std::optional<size_t> add = OnlyConsumerOf(graph, parts.outs[i], "Add");
  if (!add) return true;
  for (const ValueView& input : graph.node(*add).inputs()) {
    if (!input.constant || input.dims.size() != 1 || input.dims[0] != weight.dims[1] ||
        input.type != weight.type) {
      continue;
    }
    parts.projections.biases[i] = input;
    parts.outs[i] = graph.node(*add).outputs()[0].name;
    parts.members.push_back(*add);
  }
  return true;
}

std::optional<Group> FindProjections(const GraphIndex& graph, size_t last) {
  std::optional<ProjectionParts> found = MatchProjections(graph, last);
  if (!found) return std::nullopt;
  const ONNXTensorElementDataType type = found->projections.x.type;
  const char* const width = WidthType(type);
  Group group{std::move(found->members), {{"split_columns", width, width}}};
  if (found->projections.biased()) {
    group.modules.push_back({"bias_act", ModuleType(type), ModuleType(type)});
  }
  group.copies_constants = true;
  return group;
}

}  // namespace

std::optional<ProjectionParts> MatchProjections(const GraphIndex& graph, size_t last) {
  size_t product = last;
  if (Is(graph, last, "Add")) {
    for (const ValueView& input : graph.node(last).inputs()) {
      if (const auto matmul = ProducerOf(graph, input.name, "MatMul")) product = *matmul;
    }
  }
  if (!Is(graph, product, "MatMul")) return std::nullopt;
  ProjectionParts parts;
  parts.projections.x = graph.node(product).inputs()[0];
  const ValueView& x = parts.projections.x;
  if (x.constant) return std::nullopt;
  size_t found = 0;
  for (const size_t reader : graph.Consumers(x.name)) {
    if (!Is(graph, reader, "MatMul") || graph.node(reader).inputs()[0].name != x.name) continue;
    if (found == kCount || !AddBranch(graph, reader, found, parts)) return std::nullopt;
    ++found;
  }
  if (found != kCount) return std::nullopt;
  const Projections& all = parts.projections;
  for (size_t i = 0; i < kCount; ++i) {
    if (all.biases[i].present() != all.biased() ||
        all.weights[i].dims[0] != all.weights[0].dims[0]) {
      return std::nullopt;
    }
  }
  const std::vector<size_t>& members = parts.members;
  if (std::find(members.begin(), members.end(), last) == members.end()) return std::nullopt;
  return parts;
}

Fusion ProjectionsFusion() noexcept {
  return {{.op = "Projections"}, &FindProjections, +[]() -> std::unique_ptr<FusedKernel> {
            return std::make_unique<FusedProjections>();
          }};
}

}  // namespace tunableop
