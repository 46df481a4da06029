#include "provider/fusion/attention_apart.h"

#include <algorithm>
#include <array>

#include "gemm/device_queue.h"
#include "kernels/copy_launch.h"
#include "kernels/softmax_launch.h"
#include "provider/element_type.h"
#include "provider/kernels/element.h"

namespace tunableop {
namespace {

constexpr const char* kTooMany = "matrices of more elements than a kernel can count";

}  // namespace

std::vector<ModuleName> AttentionApart::Modules(ONNXTensorElementDataType type,
                                                ONNXTensorElementDataType mask) {
  const char* module = ModuleType(type);
  const bool flags = mask == ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL;
  return {{"softmax", module, flags ? ModuleType(mask) : module},
          {"copy", WidthType(type), WidthType(type)}};
}

Status AttentionApart::Init(const FusedInfo& info, ONNXTensorElementDataType type,
                            ONNXTensorElementDataType mask) {
  state_ = info.state();
  gpu_ = info.gpu();
  const std::optional<DataType> known = DataTypeOf(type);
  if (!known) return {StatusCode::kInternal, "attention of a type that has no products"};
  type_ = *known;  // NOLINT(clang-analyzer-core.uninitialized.Assign): there is one
  bytes_ = ElementBytes(type);
  mask_bytes_ = mask == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED ? bytes_ : ElementBytes(mask);
  scores_ = state_->AddNode("MatMul", "");
  sums_ = state_->AddNode("MatMul", "");
  const std::array<DeviceFunction*, 2> functions{&softmax_, &copy_};
  const std::array<const char*, 2> entries{"softmax", "copy"};
  const std::vector<ModuleName> modules = Modules(type, mask);
  for (size_t i = 0; i < functions.size(); ++i) {
    Result<DeviceFunction> found = info.gpu()->card().kernels().Get(
        modules[i].family, modules[i].t0, modules[i].t1, entries[i]);
    if (!found.ok()) return found.TakeStatus();
    *functions[i] = std::move(found).value();
  }
  return Status::Ok();
}

size_t AttentionApart::Bytes(const device::AttentionShape& shape) const noexcept {
  const int64_t of_head =
      shape.queries * shape.keys + 2 * (shape.queries + shape.keys) * shape.size;
  return static_cast<size_t>(shape.batches * shape.heads * of_head) * bytes_;
}

AttentionApart::Heads AttentionApart::WithoutGaps(void* data, const Batches& of, int64_t rows,
                                                  int64_t columns) noexcept {
  return {data, of.heads * rows * columns, rows * columns, columns};
}

Status AttentionApart::Take(const OpContext& context, int64_t elements, Scratch& scratch) const {
  scratch = Scratch(*gpu_->memory(), static_cast<size_t>(elements) * bytes_, context.stream());
  if (scratch.data() != nullptr) return Status::Ok();
  return context.Error(StatusCode::kOutOfMemory, gpu_->memory()->LastFailure());
}

Status AttentionApart::Copy(const OpContext& context, const Heads& from, const Heads& to,
                            const Batches& of, int64_t rows, int64_t columns) const {
  const std::array<int64_t, 4> dims{of.batches, of.heads, rows, columns};
  const std::array<int64_t, 4> from_strides{from.batch, from.head, from.row, 1};
  const std::array<int64_t, 4> to_strides{to.batch, to.head, to.row, 1};
  const auto call = device::PrepareCopy(from.data, from_strides, to.data, to_strides, dims, bytes_);
  if (!call) return context.Error(StatusCode::kNotSupported, kTooMany);
  return context.Launch(copy_, *call);
}

Status AttentionApart::Even(const OpContext& context, const Batches& of, int64_t rows,
                            int64_t columns, Heads& heads, Scratch& kept) const {
  // One row for all, where a mask has more than the scores: no product reads it so.
  const bool one_row = rows > 1 && heads.row == 0;
  const bool even = of.batches == 1 || of.heads == 1 || heads.batch == of.heads * heads.head;
  // Of what is there for all batches, or all heads, a copy would be larger.
  const bool shared = heads.batch == 0 || heads.head == 0;
  if (!one_row && (even || shared)) return Status::Ok();
  TUNABLEOP_RETURN_IF_ERROR(Take(context, of.batches * of.heads * rows * columns, kept));
  const Heads copy = WithoutGaps(kept.data(), of, rows, columns);
  TUNABLEOP_RETURN_IF_ERROR(Copy(context, heads, copy, of, rows, columns));
  heads = copy;
  return Status::Ok();
}

Status AttentionApart::RunItems(const OpContext& context, Problem problem, float alpha,
                                const Heads& a, const Heads& b, const Heads& c, int64_t items,
                                GemmNode& node) const {
  problem.batch = items;
  if (items > 1) {
    problem.stride_a = a.head;
    problem.stride_b = b.head;
    problem.stride_c = c.head;
  }
  problem.align_a = AlignmentClass(a.data);
  problem.align_b = AlignmentClass(b.data);
  problem.align_c = AlignmentClass(c.data);
  problem.alpha = ClassOf(alpha);
  Operands operands;
  operands.a = a.data;
  operands.b = b.data;
  operands.c = c.data;
  operands.alpha = alpha;
  QueueExecutor executor(context.queue());
  return state_->Run(problem, operands, executor, node);
}

Status AttentionApart::Multiply(const OpContext& context, Problem problem, float alpha,
                                const Batches& of, const Heads& a, const Heads& b, const Heads& c,
                                GemmNode& node) const {
  const auto [batches, heads] = of;
  const std::array<const Heads*, 3> all{&a, &b, &c};
  const bool even = std::all_of(all.begin(), all.end(), [&](const Heads* one) {
    return batches == 1 || heads == 1 || one->batch == heads * one->head;
  });
  // Of items in a row, from one to the next.
  const auto by_batch = [](Heads one) {
    one.head = one.batch;
    return one;
  };
  if (even && heads == 1) {
    return RunItems(context, problem, alpha, by_batch(a), by_batch(b), by_batch(c), batches, node);
  }
  if (even) return RunItems(context, problem, alpha, a, b, c, batches * heads, node);
  // One B for all heads: their rows are those of one taller matrix, if they follow one another.
  if (b.head == 0 && a.head == problem.m * problem.lda && c.head == problem.m * problem.ldc) {
    problem.m *= heads;
    return RunItems(context, problem, alpha, by_batch(a), by_batch(b), by_batch(c), batches, node);
  }
  const bool over_heads = heads < batches;
  const auto item = [&](Heads one, int64_t i) {
    const int64_t skipped = i * (over_heads ? one.head : one.batch);
    one.data = static_cast<std::byte*>(one.data) + skipped * static_cast<int64_t>(bytes_);
    return over_heads ? by_batch(one) : one;
  };
  for (int64_t i = 0; i < std::min(heads, batches); ++i) {
    TUNABLEOP_RETURN_IF_ERROR(RunItems(context, problem, alpha, item(a, i), item(b, i), item(c, i),
                                       std::max(heads, batches), node));
  }
  return Status::Ok();
}

Status AttentionApart::Run(const OpContext& context, const device::AttentionTensors& tensors,
                           const device::AttentionShape& shape, device::DimsView mask_dims) const {
  const Batches of{shape.batches, shape.heads};
  const auto heads_of = [](const device::AttentionTensor& tensor) {
    return Heads{const_cast<void*>(tensor.data), tensor.at.batch, tensor.at.head, tensor.at.token};
  };
  // From a row to the next; of one row alone, what a product is content with.
  const auto leading = [&](const Heads& heads, int64_t rows) {
    return rows == 1 ? shape.size : heads.row;
  };
  Scratch kept[3];
  Heads q = heads_of(tensors.q);
  Heads k = heads_of(tensors.k);
  Heads v = heads_of(tensors.v);
  TUNABLEOP_RETURN_IF_ERROR(Even(context, of, shape.queries, shape.size, q, kept[0]));
  TUNABLEOP_RETURN_IF_ERROR(Even(context, of, shape.keys, shape.size, k, kept[1]));
  TUNABLEOP_RETURN_IF_ERROR(Even(context, of, shape.keys, shape.size, v, kept[2]));
  const int64_t items = of.batches * of.heads;
  Scratch scratch;
  TUNABLEOP_RETURN_IF_ERROR(Take(context, items * shape.queries * shape.keys, scratch));
  const Heads scores = WithoutGaps(scratch.data(), of, shape.queries, shape.keys);

  Problem problem;
  problem.m = shape.queries;
  problem.n = problem.ldc = shape.keys;
  problem.k = shape.size;
  problem.lda = leading(q, shape.queries);
  problem.ldb = leading(k, shape.keys);
  problem.trans_b = 1;
  problem.a_type = problem.b_type = problem.c_type = type_;
  problem.threads = 0;
  if (type_ == DataType::kFloat32) problem.precision = state_->options().precision;
  TUNABLEOP_RETURN_IF_ERROR(Multiply(context, problem, shape.scale, of, q, k, scores, *scores_));

  device::SoftmaxTensors rows;
  const std::array<int64_t, 4> dims{of.batches, of.heads, shape.queries, shape.keys};
  rows.x = rows.out = scratch.data();
  rows.x_dims = dims;
  rows.mask = tensors.mask.data;
  if (rows.mask != nullptr) rows.mask_dims = mask_dims;
  device::SoftmaxOptions options;
  options.hidden = tensors.fill;
  options.inverted = tensors.mask_is == device::AttentionMask::kKeepsFalse;
  const auto softmax = device::PrepareSoftmax(rows, options, bytes_, mask_bytes_);
  if (!softmax) return context.Error(StatusCode::kNotSupported, kTooMany);
  TUNABLEOP_RETURN_IF_ERROR(context.Launch(softmax_, *softmax));

  // Libraries take no result whose items lie between one another's rows.
  const Heads out = {tensors.out, tensors.out_at.batch, tensors.out_at.head, tensors.out_at.token};
  const bool between = of.heads > 1 && shape.queries > 1 && out.head < out.row * shape.queries;
  Scratch apart;
  Heads sums = out;
  if (between) {
    TUNABLEOP_RETURN_IF_ERROR(Take(context, items * shape.queries * shape.size, apart));
    sums = WithoutGaps(apart.data(), of, shape.queries, shape.size);
  }
  problem.n = shape.size;
  problem.k = problem.lda = shape.keys;
  problem.ldb = leading(v, shape.keys);
  problem.trans_b = 0;
  problem.ldc = leading(sums, shape.queries);
  TUNABLEOP_RETURN_IF_ERROR(Multiply(context, problem, 1.0F, of, scores, v, sums, *sums_));
  return between ? Copy(context, sums, out, of, shape.queries, shape.size) : Status::Ok();
}

}  // namespace tunableop
