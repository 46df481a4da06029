// ONNX MatMul, opset 1 and later: fp32 on a CPU, and the types that have kernels on a card.
#include <cstddef>

#include "gemm/device_queue.h"
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

  Status Compute(OrtKernelContext* context, Executor& executor) override {
    Result<TensorView> a = InputA(context);
    if (!a.ok()) return a.TakeStatus();
    Result<TensorView> b = InputB(context);
    if (!b.ok()) return b.TakeStatus();

    MatMulShape shape;
    TUNABLEOP_RETURN_IF_ERROR(ResolveMatMul(a.value().dims, b.value().dims, shape));
    const bool empty = shape.empty();
    Result<void*> output = Output(context, {shape.output.data(), shape.output_rank}, empty);
    if (!output.ok()) return output.TakeStatus();
    if (empty) return Status::Ok();
    if (gpu() != nullptr) {
      if (shape.k == 0) return Clear(shape, output.value(), *executor.queue());
      const bool plain = a.value().data != nullptr && b.value().data != nullptr;
      if (!plain) return NoMemory(*gpu());
    }
    return Multiply(executor, shape, static_cast<const std::byte*>(a.value().data),
                    static_cast<const std::byte*>(b.value().data),
                    static_cast<std::byte*>(output.value()));
  }

 private:
  // Sums of no products.
  Status Clear(const MatMulShape& shape, void* output, const DeviceQueue& queue) const {
    size_t bytes = element_bytes();
    for (size_t i = 0; i < shape.output_rank; ++i) bytes *= static_cast<size_t>(shape.output[i]);
    return gpu()->device().Fill(output, 0, bytes, queue.stream());
  }

  Status Multiply(Executor& executor, const MatMulShape& shape, const std::byte* a,
                  const std::byte* b, std::byte* c) {
    const bool packed = static_cast<bool>(packed_b());
    const auto bytes = static_cast<int64_t>(element_bytes());
    const int64_t a_elements = shape.m * shape.k;
    const int64_t b_elements = packed ? packed_b().stride() : shape.k * shape.n;
    const int64_t c_elements = shape.m * shape.n;

    Problem problem = CommonProblem(executor);
    problem.m = shape.m;
    problem.n = shape.n;
    problem.k = shape.k;
    problem.batch = shape.inner.count;
    problem.lda = shape.k > 0 ? shape.k : 1;
    problem.ldb = packed ? 0 : shape.n;
    problem.ldc = shape.n;
    if (shape.inner.count > 1) {
      problem.stride_a = shape.inner.a_stride * a_elements;
      problem.stride_b = shape.inner.b_stride * b_elements;
      problem.stride_c = c_elements;
    }
    problem.align_a = AlignmentClass(a);
    problem.align_b = packed ? kMaxAlignmentLog2 : AlignmentClass(b);
    problem.align_c = AlignmentClass(c);

    Operands operands;
    operands.a = a;
    operands.b = b;
    operands.packed_b = packed_b().data();
    operands.c = c;
    if (shape.outer_count == 0) return state().Run(problem, operands, executor, node());

    const int64_t c_step = c_elements * shape.inner.count * bytes;
    std::array<int64_t, kMaxRank> index{};
    for (int64_t call = 0;; ++call) {
      int64_t a_matrix = 0;
      int64_t b_matrix = 0;
      for (size_t i = 0; i < shape.outer_count; ++i) {
        a_matrix += index[i] * shape.outer[i].a_stride;
        b_matrix += index[i] * shape.outer[i].b_stride;
      }
      operands.a = a + a_matrix * a_elements * bytes;
      operands.b = packed ? nullptr : b + b_matrix * b_elements * bytes;
      operands.packed_b = packed ? packed_b().data() + b_matrix * b_elements : nullptr;
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
