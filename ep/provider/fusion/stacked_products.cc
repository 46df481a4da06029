#include "provider/fusion/stacked_products.h"

#include <optional>
#include <span>

#include "gemm/device_queue.h"
#include "provider/element_type.h"
#include "provider/kernels/element.h"
#include "provider/kernels/kernel.h"
#include "provider/kernels/scratch.h"

namespace tunableop {
namespace {

// Matrices of `rows` each, beside one another on the card: each goes there as it is, and is then
// laid between the others, which is a hundred times faster there.
Result<KeptMemory> Beside(GpuSession& gpu, std::span<const ValueView> matrices, size_t rows) {
  size_t bytes = 0;
  for (const ValueView& matrix : matrices) bytes += matrix.ConstantBytes().size();
  KeptMemory all(gpu.memory(), bytes);
  const NativeStream stream = gpu.streams()->own();
  Scratch arrived(*gpu.memory(), bytes, stream);
  if (all.data() == nullptr || arrived.data() == nullptr) {
    return Status(StatusCode::kOutOfMemory, gpu.memory()->LastFailure());
  }
  const Device& device = gpu.device();
  const size_t width = bytes / rows;
  auto* source = static_cast<std::byte*>(arrived.data());
  auto* target = static_cast<std::byte*>(all.data());
  for (const ValueView& matrix : matrices) {
    const std::span<const std::byte> from = matrix.ConstantBytes();
    const size_t row = from.size() / rows;
    TUNABLEOP_RETURN_IF_ERROR(
        device.Copy(source, from.data(), from.size(), CopyKind::kHostToDevice, stream));
    TUNABLEOP_RETURN_IF_ERROR(device.CopyRows(target, width, source, row, row, rows, stream));
    source += from.size();
    target += row;
  }
  TUNABLEOP_RETURN_IF_ERROR(device.Synchronize(stream));  // for all streams
  return all;
}

}  // namespace

Status StackedProducts::Init(const FusedInfo& info, const Projections& projections) {
  state_ = info.state();
  gpu_ = info.gpu();
  const ONNXTensorElementDataType type = projections.x.type;
  const std::optional<DataType> known = DataTypeOf(type);
  if (!known) return {StatusCode::kInternal, "a group of products of a type that has none"};
  type_ = *known;
  k_ = projections.weights[0].dims[0];
  for (size_t i = 0; i < Projections::kCount; ++i) {
    offsets_[i] = width_;
    width_ += projections.weights[i].dims[1];
  }
  size_t bytes = 0;
  for (const ValueView& weight : projections.weights) bytes += weight.ConstantBytes().size();
  if (bytes != static_cast<size_t>(k_ * width_) * SizeOf(type_)) {
    return {StatusCode::kInternal, "the weights of a group are not there"};
  }
  Result<KeptMemory> kept = Beside(*gpu_, projections.weights, static_cast<size_t>(k_));
  if (!kept.ok()) return kept.TakeStatus();
  weights_ = std::move(kept).value();
  if (projections.biased()) {
    kept = Beside(*gpu_, projections.biases, 1);
    if (!kept.ok()) return kept.TakeStatus();
    biases_ = std::move(kept).value();
    TUNABLEOP_RETURN_IF_ERROR(product_.Init(info, type, /*relu=*/false));
  }
  node_ = state_->AddNode("MatMul", std::string(projections.names[0]));
  for (size_t i = 0; i < parts_.size(); ++i) {
    parts_[i] = state_->AddNode("MatMul", std::string(projections.names[i]));
  }
  state_->AddWeight(bytes);
  return Status::Ok();
}

Status StackedProducts::Run(const OpContext& context, const void* a, int64_t m, void* out) const {
  return RunColumns(context, 0, width_, a, m, out, *node_);
}

Status StackedProducts::RunPart(const OpContext& context, size_t product, const void* a, int64_t m,
                                void* out) const {
  const int64_t end = product + 1 < offsets_.size() ? offsets_[product + 1] : width_;
  return RunColumns(context, offsets_[product], end - offsets_[product], a, m, out,
                    *parts_[product]);
}

Status StackedProducts::RunColumns(const OpContext& context, int64_t first, int64_t columns,
                                   const void* a, int64_t m, void* out, GemmNode& node) const {
  const size_t skipped = static_cast<size_t>(first) * SizeOf(type_);
  Problem problem;
  problem.m = m;
  problem.n = problem.ldc = columns;
  problem.ldb = width_;
  problem.k = problem.lda = k_;
  problem.a_type = problem.b_type = problem.c_type = type_;
  problem.b_constant = 1;
  problem.threads = 0;
  if (type_ == DataType::kFloat32) problem.precision = state_->options().precision;
  Operands operands;
  operands.a = a;
  operands.b = static_cast<const std::byte*>(weights_.data()) + skipped;
  operands.c = out;
  problem.align_a = AlignmentClass(a);
  problem.align_b = AlignmentClass(operands.b);
  problem.align_c = AlignmentClass(out);
  if (biases_.data() == nullptr) {
    QueueExecutor executor(context.queue());
    return state_->Run(problem, operands, executor, node);
  }
  operands.bias = static_cast<const std::byte*>(biases_.data()) + skipped;
  return product_.Run(context, problem, operands, node);
}

}  // namespace tunableop
