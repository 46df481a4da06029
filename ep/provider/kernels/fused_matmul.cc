// FusedMatMul of com.microsoft: a product of operands that are turned where they lie, and scaled.
#include <array>
#include <utility>

#include "provider/kernels/inner_product.h"
#include "provider/kernels/matmul_shape.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

class FusedMatMul final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    turns_a_ = info.Int("transA", 0) != 0;
    turns_b_ = info.Int("transB", 0) != 0;
    alpha_ = info.Float("alpha", 1.0F);
    return product_.Init(info, state(), info.InputType(0));
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 2> inputs;
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    const auto& [a, b] = inputs;
    const bool turns_a = turns_a_ && a.dims.size() > 1;  // a vector is what it is
    const bool turns_b = turns_b_ && b.dims.size() > 1;
    const device::Dims a_dims = Turned(a.dims, turns_a);
    const device::Dims b_dims = Turned(b.dims, turns_b);
    MatMulShape shape;
    TUNABLEOP_RETURN_IF_ERROR(ResolveMatMul(a_dims.view(), b_dims.view(), shape));
    Result<DeviceTensor> output = context.Output(0, {shape.output.data(), shape.output_rank});
    if (!output.ok()) return output.TakeStatus();
    const DeviceTensor& c = output.value();
    if (shape.empty()) return Status::Ok();
    if (shape.k == 0) {  // sums of no products
      return context.device().Fill(c.data, 0, static_cast<size_t>(c.elements()) * product_.bytes(),
                                   context.stream());
    }
    if (turns_a) Unfold(shape, a_dims[a_dims.rank() - 2]);
    Problem problem = product_.Start();
    problem.m = shape.m;
    problem.n = shape.n;
    problem.k = shape.k;
    problem.trans_a = turns_a ? 1 : 0;
    problem.trans_b = turns_b ? 1 : 0;
    problem.lda = turns_a ? shape.m : shape.k;
    problem.ldb = turns_b ? shape.k : shape.n;
    problem.ldc = shape.n;
    problem.batch = shape.inner.count;
    if (problem.batch > 1) {
      problem.stride_a = shape.inner.a_stride * shape.m * shape.k;
      problem.stride_b = shape.inner.b_stride * shape.k * shape.n;
      problem.stride_c = shape.m * shape.n;
    }
    Operands operands;
    operands.alpha = alpha_;
    return Multiply(context, shape, problem, operands, a.data, b.data, c.data);
  }

 private:
  static device::Dims Turned(std::span<const int64_t> dims, bool turns) {
    device::Dims turned(dims);
    if (turns) std::swap(turned[turned.rank() - 1], turned[turned.rank() - 2]);
    return turned;
  }

  // Matrices of A that lie behind one another are rows of a taller one only as they are: of turned
  // ones each is one of a batch.
  static void Unfold(MatMulShape& shape, int64_t rows) noexcept {
    const int64_t folded = shape.m / rows;
    if (folded == 1) return;
    shape.m = rows;
    BatchLoop next = {folded, 1, 0};
    std::swap(shape.inner, next);
    if (next.count > 1) {
      for (size_t i = shape.outer_count; i > 0; --i) shape.outer[i] = shape.outer[i - 1];
      shape.outer[0] = next;
      ++shape.outer_count;
    }
    for (size_t i = 0; i < shape.outer_count; ++i) shape.outer[i].a_stride *= folded;
  }

  Status Multiply(const OpContext& context, const MatMulShape& shape, const Problem& problem,
                  Operands& operands, const void* a, const void* b, void* c) const {
    const auto bytes = static_cast<int64_t>(product_.bytes());
    const int64_t c_step = shape.m * shape.n * shape.inner.count * bytes;
    std::array<int64_t, kMaxRank> index{};
    for (int64_t call = 0;; ++call) {
      int64_t a_matrix = 0;
      int64_t b_matrix = 0;
      for (size_t i = 0; i < shape.outer_count; ++i) {
        a_matrix += index[i] * shape.outer[i].a_stride;
        b_matrix += index[i] * shape.outer[i].b_stride;
      }
      operands.a = static_cast<const std::byte*>(a) + a_matrix * shape.m * shape.k * bytes;
      operands.b = static_cast<const std::byte*>(b) + b_matrix * shape.k * shape.n * bytes;
      operands.c = static_cast<std::byte*>(c) + call * c_step;
      TUNABLEOP_RETURN_IF_ERROR(product_.Run(context, problem, operands));
      size_t digit = 0;
      while (digit < shape.outer_count && ++index[digit] == shape.outer[digit].count) {
        index[digit++] = 0;
      }
      if (digit == shape.outer_count) return Status::Ok();
    }
  }

  InnerProduct product_;
  float alpha_ = 1.0F;
  bool turns_a_ = false;
  bool turns_b_ = false;
};

}  // namespace

OrtStatus* CreateFusedMatMul(void* state, const OrtKernelInfo* info,
                             OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<FusedMatMul>(state, info, kernel);
}

}  // namespace tunableop
