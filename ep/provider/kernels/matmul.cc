// ONNX MatMul, opset 1 and later, fp32.
#include "provider/guard.h"
#include "provider/happens_before.h"
#include "provider/kernels/kernel.h"
#include "provider/kernels/matmul_shape.h"
#include "provider/ort_runtime.h"

namespace tunableop {
namespace {

class MatMul final : public Kernel {
 public:
  explicit MatMul(const OrtKernelInfo* info) : Kernel(info, "MatMul") {}

 protected:
  Result<bool> PackB(const TensorView& b) override {
    if (b.dims.empty()) return false;  // an error of the model: reported by Compute
    const bool vector = b.dims.size() == 1;
    const int64_t n = vector ? 1 : b.dims[b.dims.size() - 1];
    const int64_t k = vector ? b.dims[0] : b.dims[b.dims.size() - 2];
    int64_t batch = 1;
    for (size_t i = 0; i + 2 < b.dims.size(); ++i) batch *= b.dims[i];
    return Pack(b, n, /*transposed=*/false, k, n, batch);
  }

  Status Compute(OrtKernelContext* context) override {
    Result<TensorView> a = InputA(context);
    if (!a.ok()) return a.TakeStatus();
    Result<TensorView> b = InputB(context);
    if (!b.ok()) return b.TakeStatus();

    MatMulShape shape;
    TUNABLEOP_RETURN_IF_ERROR(ResolveMatMul(a.value().dims, b.value().dims, shape));
    Result<float*> output = Output(context, 0, {shape.output.data(), shape.output_rank});
    if (!output.ok()) return output.TakeStatus();
    if (shape.empty()) return Status::Ok();
    return Multiply(context, shape, static_cast<const float*>(a.value().data),
                    static_cast<const float*>(b.value().data), output.value());
  }

 private:
  Status Multiply(OrtKernelContext* context, const MatMulShape& shape, const float* a,
                  const float* b, float* c) {
    const bool packed = static_cast<bool>(packed_b());
    const int64_t a_floats = shape.m * shape.k;
    const int64_t b_floats = packed ? packed_b().stride() : shape.k * shape.n;
    const int64_t c_floats = shape.m * shape.n;

    PoolExecutor executor(context, state().Threads(context));
    Problem problem;
    problem.m = shape.m;
    problem.n = shape.n;
    problem.k = shape.k;
    problem.batch = shape.inner.count;
    problem.lda = shape.k > 0 ? shape.k : 1;
    problem.ldb = packed ? 0 : shape.n;
    problem.ldc = shape.n;
    if (shape.inner.count > 1) {
      problem.stride_a = shape.inner.a_stride * a_floats;
      problem.stride_b = shape.inner.b_stride * b_floats;
      problem.stride_c = c_floats;
    }
    problem.b_layout = packed ? BLayout::kPacked : BLayout::kPlain;
    problem.b_constant = b_constant() ? 1 : 0;
    problem.threads = static_cast<uint16_t>(executor.threads());
    problem.align_a = AlignmentClass(a);
    problem.align_b = packed ? kMaxAlignmentLog2 : AlignmentClass(b);
    problem.align_c = AlignmentClass(c);

    Operands operands;
    operands.a = a;
    operands.b = b;
    operands.packed_b = packed_b().data();
    operands.c = c;
    if (shape.outer_count == 0) return state().Run(problem, operands, executor, node());

    const int64_t c_step = c_floats * shape.inner.count;
    std::array<int64_t, kMaxRank> index{};
    for (int64_t call = 0;; ++call) {
      int64_t a_matrix = 0;
      int64_t b_matrix = 0;
      for (size_t i = 0; i < shape.outer_count; ++i) {
        a_matrix += index[i] * shape.outer[i].a_stride;
        b_matrix += index[i] * shape.outer[i].b_stride;
      }
      operands.a = a + a_matrix * a_floats;
      operands.b = packed ? nullptr : b + b_matrix * b_floats;
      operands.packed_b = packed ? packed_b().data() + b_matrix * b_floats : nullptr;
      operands.c = c + call * c_step;
      problem.align_a = AlignmentClass(operands.a);
      if (!packed) problem.align_b = AlignmentClass(operands.b);
      problem.align_c = AlignmentClass(operands.c);
      TUNABLEOP_RETURN_IF_ERROR(state().Run(problem, operands, executor, node()));
      size_t digit = 0;
      while (digit < shape.outer_count && ++index[digit] == shape.outer[digit].count)
        index[digit++] = 0;
      if (digit == shape.outer_count) return Status::Ok();
    }
  }
};

}  // namespace

OrtStatus* CreateMatMul(void* /*state*/, const OrtKernelInfo* info,
                        OrtKernelImpl** kernel) noexcept {
  *kernel = nullptr;
  return Guard([&] {
    *kernel = new MatMul(info);
    HappensBefore(*kernel);
    return Status::Ok();
  });
}

}  // namespace tunableop
