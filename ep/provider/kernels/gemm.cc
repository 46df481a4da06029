// ONNX Gemm, opset 7 and later, fp32: Y = alpha * op(A) * op(B) + beta * C.
#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "provider/guard.h"
#include "provider/happens_before.h"
#include "provider/kernels/kernel.h"
#include "provider/kernels/matmul_shape.h"
#include "provider/ort_runtime.h"

namespace tunableop {
namespace {

// C as a matrix: element (row, column) is at data[row * row_stride + column * column_stride].
struct Addend {
  const float* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};

// C must broadcast one way to m x n (ONNX: unidirectional).
Result<Addend> ResolveAddend(const TensorView& c, int64_t m, int64_t n) {
  const size_t rank = c.dims.size();
  const int64_t columns = rank > 0 ? c.dims[rank - 1] : 1;
  const int64_t rows = rank > 1 ? c.dims[rank - 2] : 1;
  if (rank > 2 || (columns != 1 && columns != n) || (rows != 1 && rows != m)) {
    return Status(StatusCode::kInvalidArgument, "Gemm: C " + DimsText(c.dims) +
                                                    " does not broadcast to " +
                                                    DimsText(std::array<int64_t, 2>{m, n}));
  }
  return Addend{static_cast<const float*>(c.data), rows == 1 ? 0 : columns, columns == 1 ? 0 : 1};
}

// y = beta * C, broadcast. y is m x n, dense.
struct Fill {
  Addend c;
  float beta;
  float* y;
  int64_t m;
  int64_t n;
  int64_t rows_per_task;

  static void Task(void* context, size_t index) {
    const Fill& fill = *static_cast<const Fill*>(context);
    const int64_t first = static_cast<int64_t>(index) * fill.rows_per_task;
    const int64_t last = std::min(fill.m, first + fill.rows_per_task);
    for (int64_t row = first; row < last; ++row) fill.Row(row);
  }

  void Row(int64_t row) const {
    const float* source = c.data + row * c.row_stride;
    float* target = y + row * n;
    if (c.column_stride == 0) {
      std::fill_n(target, n, beta * *source);
    } else if (beta == 1.0F) {
      std::memmove(target, source, static_cast<size_t>(n) * sizeof(float));  // C may be the result
    } else {
      for (int64_t column = 0; column < n; ++column) target[column] = beta * source[column];
    }
  }
};

// A task moves about this many floats, so that small results stay on the calling thread.
constexpr int64_t kFillFloatsPerTask = 65536;

class Gemm final : public Kernel {
 public:
  explicit Gemm(const OrtKernelInfo* info) : Kernel(info, "Gemm") {
    ReadFloat(info, "alpha", alpha_);
    ReadFloat(info, "beta", beta_);
    ReadFlag(info, "transA", trans_a_);
    ReadFlag(info, "transB", trans_b_);
  }

 protected:
  Result<bool> PackB(const TensorView& b) override {
    if (b.dims.size() != 2) return false;  // an error of the model: reported by Compute
    const int64_t k = b.dims[trans_b_ ? 1 : 0];
    const int64_t n = b.dims[trans_b_ ? 0 : 1];
    return Pack(b, b.dims[1], trans_b_, k, n, 1);
  }

  Status Compute(OrtKernelContext* context) override {
    Result<TensorView> a = InputA(context);
    if (!a.ok()) return a.TakeStatus();
    Result<TensorView> b = InputB(context);
    if (!b.ok()) return b.TakeStatus();

    Problem problem;
    TUNABLEOP_RETURN_IF_ERROR(ResolveSizes(a.value().dims, b.value().dims, problem));
    const std::array<int64_t, 2> dims = {problem.m, problem.n};
    Result<float*> output = Output(context, 0, dims);
    if (!output.ok()) return output.TakeStatus();

    const bool packed = static_cast<bool>(packed_b());
    PoolExecutor executor(context, state().Threads(context));
    Operands operands;
    operands.a = a.value().data;
    operands.b = b.value().data;
    operands.packed_b = packed_b().data();
    operands.c = output.value();
    operands.alpha = alpha_;
    problem.alpha = ClassOf(alpha_);
    problem.lda = std::max<int64_t>(1, a.value().dims[1]);
    problem.ldb = packed ? 0 : std::max<int64_t>(1, b.value().dims[1]);
    problem.ldc = std::max<int64_t>(1, problem.n);
    problem.trans_a = trans_a_ ? 1 : 0;
    problem.trans_b = trans_b_ && !packed ? 1 : 0;
    problem.b_layout = packed ? BLayout::kPacked : BLayout::kPlain;
    problem.b_constant = b_constant() ? 1 : 0;
    problem.threads = static_cast<uint16_t>(executor.threads());
    problem.align_a = AlignmentClass(operands.a);
    problem.align_b = packed ? kMaxAlignmentLog2 : AlignmentClass(operands.b);
    problem.align_c = AlignmentClass(operands.c);
    TUNABLEOP_RETURN_IF_ERROR(AddC(context, executor, problem, operands));
    if (problem.m == 0 || problem.n == 0) return Status::Ok();
    return state().Run(problem, operands, executor, node());
  }

 private:
  static void ReadFloat(const OrtKernelInfo* info, const char* name, float& value) {
    float read = 0.0F;
    if (FromOrt(Ort().api->KernelInfoGetAttribute_float(info, name, &read)).ok()) value = read;
  }
  static void ReadFlag(const OrtKernelInfo* info, const char* name, bool& value) {
    int64_t read = 0;
    if (FromOrt(Ort().api->KernelInfoGetAttribute_int64(info, name, &read)).ok()) value = read != 0;
  }

  Status ResolveSizes(std::span<const int64_t> a, std::span<const int64_t> b,
                      Problem& problem) const {
    if (a.size() != 2 || b.size() != 2) {
      return {StatusCode::kInvalidArgument, "Gemm: A " + DimsText(a) + " and B " + DimsText(b) +
                                                " must have two dimensions each"};
    }
    problem.m = a[trans_a_ ? 1 : 0];
    problem.k = a[trans_a_ ? 0 : 1];
    problem.n = b[trans_b_ ? 0 : 1];
    const int64_t b_k = b[trans_b_ ? 1 : 0];
    if (problem.k != b_k) {
      return {StatusCode::kInvalidArgument,
              "Gemm: inner dimensions of A " + DimsText(a) + " and B " + DimsText(b) +
                  " differ: " + std::to_string(problem.k) + " and " + std::to_string(b_k)};
    }
    return Status::Ok();
  }

  // A row of biases is an epilogue of the kernels; any other C is laid under the product first.
  Status AddC(OrtKernelContext* context, PoolExecutor& executor, Problem& problem,
              Operands& operands) const {
    size_t inputs = 0;
    TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->KernelContext_GetInputCount(context, &inputs));
    if (inputs < 3) return Status::Ok();
    const OrtValue* value = nullptr;
    TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->KernelContext_GetInput(context, 2, &value));
    if (value == nullptr) return Status::Ok();
    Result<TensorView> c = ViewOf(value);
    if (!c.ok()) return c.TakeStatus();
    Result<Addend> resolved = ResolveAddend(c.value(), problem.m, problem.n);
    if (!resolved.ok()) return resolved.TakeStatus();
    if (beta_ == 0.0F || problem.m == 0 || problem.n == 0) return Status::Ok();
    Addend addend = resolved.value();
    // C may be bound to the memory of the result. Kernels write before they read the biases, and
    // rows are written in any order: only a C of the result's own shape can stay where it is.
    std::vector<float> copy;
    const bool full = addend.row_stride == problem.n && addend.column_stride == 1;
    const int64_t floats = std::accumulate(c.value().dims.begin(), c.value().dims.end(), int64_t{1},
                                           std::multiplies<>());
    const auto* y = static_cast<const float*>(operands.c);
    if (addend.data < y + problem.m * problem.n && y < addend.data + floats &&
        !(full && addend.data == y)) {
      copy.assign(addend.data, addend.data + floats);
      addend.data = copy.data();
    } else if (beta_ == 1.0F && addend.row_stride == 0 && addend.column_stride == 1) {
      problem.epilogue = Epilogue::kBias;
      operands.bias = addend.data;
      return Status::Ok();
    }
    const int64_t rows = std::max<int64_t>(1, kFillFloatsPerTask / problem.n);
    Fill fill{addend, beta_, static_cast<float*>(operands.c), problem.m, problem.n, rows};
    executor.ParallelFor(static_cast<size_t>((problem.m + rows - 1) / rows), &Fill::Task, &fill);
    problem.beta = ScalarClass::kOne;
    operands.beta = 1.0F;
    return Status::Ok();
  }

  float alpha_ = 1.0F;
  float beta_ = 1.0F;
  bool trans_a_ = false;
  bool trans_b_ = false;
};

}  // namespace

OrtStatus* CreateGemm(void* /*state*/, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  *kernel = nullptr;
  return Guard([&] {
    *kernel = new Gemm(info);
    HappensBefore(*kernel);
    return Status::Ok();
  });
}

}  // namespace tunableop
