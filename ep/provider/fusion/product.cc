#include "provider/fusion/product.h"

#include <array>
#include <string>

#include "provider/element_type.h"
#include "provider/fusion/biased_product.h"
#include "provider/kernels/element.h"
#include "provider/kernels/kernel.h"
#include "provider/kernels/matmul_shape.h"

namespace tunableop {
namespace {

// The place of the bias among the sum's inputs: a constant row of `columns`.
std::optional<size_t> BiasOf(const NodeView& add, int64_t columns, ONNXTensorElementDataType type) {
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const ValueView& input = add.inputs()[i];
    if (input.constant && input.type == type && input.dims.size() == 1 &&
        input.dims.front() == columns) {
      return i;
    }
  }
  return std::nullopt;
}

class FusedProduct final : public FusedKernel {
 public:
  Status Init(const FusedInfo& info) override {
    const GraphIndex& graph = info.graph();
    const std::optional<Product> found = MatchWhole(graph, &MatchProduct);
    if (!found) return NotThePattern(info);
    const Product& product = *found;
    state_ = info.state();
    gpu_ = info.gpu();
    a_ = info.Input(product.a.name);
    b_ = info.Input(product.b.name);
    bias_ = info.Input(product.bias.name);
    k_ = product.b.dims[0];
    n_ = product.b.dims[1];
    const std::optional<DataType> known = DataTypeOf(product.a.type);
    if (!known) return NotThePattern(info);
    type_ = *known;  // NOLINT(clang-analyzer-core.uninitialized.Assign): there is one
    node_ = state_->AddNode("MatMul", std::string(graph.node(product.matmul).name()));
    state_->AddWeight(static_cast<size_t>(k_ * n_) * SizeOf(type_));
    return product_.Init(info, product.a.type, product.relu.has_value());
  }

  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> a = context.Input(a_);
    if (!a.ok()) return a.TakeStatus();
    Result<DeviceTensor> b = context.Input(b_);
    if (!b.ok()) return b.TakeStatus();
    Result<DeviceTensor> bias = context.Input(bias_);
    if (!bias.ok()) return bias.TakeStatus();
    const std::span<const int64_t> dims = a.value().dims;
    if (dims.empty() || dims.size() > kMaxRank || dims.back() != k_) {
      return context.Error(StatusCode::kInvalidArgument, "inner dimensions of A " + DimsText(dims) +
                                                             " and B " + DimsText(b.value().dims) +
                                                             " differ");
    }
    std::array<int64_t, kMaxRank> out_dims{};
    std::copy(dims.begin(), dims.end(), out_dims.begin());
    out_dims[dims.size() - 1] = n_;
    Result<DeviceTensor> out = context.Output(0, {out_dims.data(), dims.size()});
    if (!out.ok()) return out.TakeStatus();
    if (out.value().elements() == 0) return Status::Ok();

    Problem problem;
    problem.m = out.value().elements() / n_;
    problem.n = n_;
    problem.k = k_;
    problem.lda = k_;
    problem.ldb = n_;
    problem.ldc = n_;
    problem.a_type = problem.b_type = problem.c_type = type_;
    problem.b_constant = 1;
    problem.threads = 0;
    if (type_ == DataType::kFloat32) problem.precision = state_->options().precision;
    Operands operands;
    operands.a = a.value().data;
    operands.b = b.value().data;
    operands.c = out.value().data;
    problem.align_a = AlignmentClass(operands.a);
    problem.align_b = AlignmentClass(operands.b);
    problem.align_c = AlignmentClass(operands.c);
    operands.bias = bias.value().data;
    return product_.Run(context, problem, operands, *node_);
  }

 private:
  std::shared_ptr<SessionState> state_;
  std::shared_ptr<GpuSession> gpu_;
  std::shared_ptr<GemmNode> node_;
  BiasedProduct product_;
  size_t a_ = 0;
  size_t b_ = 0;
  size_t bias_ = 0;
  int64_t k_ = 0;
  int64_t n_ = 0;
  DataType type_ = DataType::kFloat32;
};

std::optional<Group> FindProduct(const GraphIndex& graph, size_t last) {
  const std::optional<Product> product = MatchProduct(graph, last);
  if (!product) return std::nullopt;
  const char* type = ModuleType(product->a.type);
  return Group{product->nodes(), {{"bias_act", type, type}}};
}

}  // namespace

std::vector<size_t> Product::nodes() const {
  std::vector<size_t> nodes{matmul, add};
  if (relu) nodes.push_back(*relu);
  return nodes;
}

std::optional<Product> MatchProduct(const GraphIndex& graph, size_t last) {
  Product product;
  std::optional<size_t> add = last;
  if (Is(graph, last, "Relu")) {
    product.relu = last;
    const std::string_view sum = graph.node(last).inputs()[0].name;
    add = ProducerOf(graph, sum, "Add");
    if (!add || !graph.OnlyConsumer(sum)) return std::nullopt;
  }
  if (!Is(graph, *add, "Add")) return std::nullopt;
  product.add = *add;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const std::string_view value = graph.node(*add).inputs()[side].name;
    const std::optional<size_t> matmul = ProducerOf(graph, value, "MatMul");
    if (!matmul || !graph.OnlyConsumer(value)) continue;
    const std::vector<ValueView>& operands = graph.node(*matmul).inputs();
    const ValueView& weight = operands[1];
    if (!weight.constant || weight.dims.size() != 2 || weight.dims[0] < 1 || weight.dims[1] < 1 ||
        operands[0].type != weight.type || !DataTypeOf(weight.type)) {
      continue;
    }
    const std::optional<size_t> bias = BiasOf(graph.node(*add), weight.dims[1], weight.type);
    if (!bias || *bias == side) continue;
    product.matmul = *matmul;
    product.a = operands[0];
    product.b = weight;
    product.bias = graph.node(*add).inputs()[*bias];
    return product;
  }
  return std::nullopt;
}

Fusion ProductFusion() noexcept {
  return {{.op = "MatMul+Add"}, &FindProduct, +[]() -> std::unique_ptr<FusedKernel> {
            return std::make_unique<FusedProduct>();
          }};
}

}  // namespace tunableop
