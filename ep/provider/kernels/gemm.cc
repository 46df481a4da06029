// ONNX Gemm, opset 7 and later: Y = alpha * op(A) * op(B) + beta * C. fp32 on a CPU, and the types
// that have kernels on a card.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gemm/device_queue.h"
#include "provider/guard.h"
#include "provider/happens_before.h"
#include "provider/kernels/gemm_addend.h"
#include "provider/kernels/kernel.h"
#include "provider/kernels/matmul_shape.h"
#include "provider/kernels/scratch.h"
#include "provider/ort_runtime.h"

namespace tunableop {
namespace {

bool Overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) noexcept {
  const auto* a_begin = static_cast<const std::byte*>(a);
  const auto* b_begin = static_cast<const std::byte*>(b);
  return a_begin < b_begin + b_bytes && b_begin < a_begin + a_bytes;
}

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

  Status Compute(OrtKernelContext* context, Executor& executor) override {
    Result<TensorView> a = InputA(context);
    if (!a.ok()) return a.TakeStatus();
    Result<TensorView> b = InputB(context);
    if (!b.ok()) return b.TakeStatus();

    Problem problem = CommonProblem(executor);
    TUNABLEOP_RETURN_IF_ERROR(ResolveSizes(a.value().dims, b.value().dims, problem));
    const std::array<int64_t, 2> dims = {problem.m, problem.n};
    const bool empty = problem.m == 0 || problem.n == 0;
    Result<void*> output = Output(context, dims, empty);
    if (!output.ok()) return output.TakeStatus();

    const bool packed = static_cast<bool>(packed_b());
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
    problem.align_a = AlignmentClass(operands.a);
    problem.align_b = packed ? kMaxAlignmentLog2 : AlignmentClass(operands.b);
    problem.align_c = AlignmentClass(operands.c);
    std::optional<Addend> addend;
    TUNABLEOP_RETURN_IF_ERROR(ReadC(context, problem, addend));
    if (empty) return Status::Ok();
    if (beta_ == 0.0F) addend.reset();
    if (gpu() != nullptr) return RunOnCard(addend, problem, operands, executor);
    if (addend) AddC(*addend, executor, problem, operands);
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

  static Status ReadC(OrtKernelContext* context, const Problem& problem,
                      std::optional<Addend>& addend) {
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
    addend = resolved.value();
    return Status::Ok();
  }

  // A row of biases is an epilogue of the kernels; any other C is laid under the product first.
  void AddC(Addend addend, Executor& executor, Problem& problem, Operands& operands) const {
    auto* y = static_cast<float*>(operands.c);
    const auto bytes = [](int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); };
    // C may be bound to the memory of the result. Kernels write before they read the biases, and
    // rows are written in any order: only a C of the result's own shape can stay where it is.
    std::vector<float> copy;
    const bool stays =
        addend.is_full(problem.m, problem.n) && addend.data == y && problem.m > 1 && problem.n > 1;
    if (!stays && Overlap(addend.data, bytes(addend.elements()), y, bytes(problem.m * problem.n))) {
      const auto* c = static_cast<const float*>(addend.data);
      copy.assign(c, c + addend.elements());
      addend.data = copy.data();
    } else if (beta_ == 1.0F && addend.is_row(problem.n) && problem.n > 1) {
      problem.epilogue = Epilogue::kBias;
      operands.bias = addend.data;
      return;
    }
    LayUnder(addend, beta_, y, problem.m, problem.n, executor);
    problem.beta = ScalarClass::kOne;
    operands.beta = 1.0F;
  }

  // Only queues work; waits for nothing, and allocates nothing unless C lies in the result's
  // memory.
  Status RunOnCard(std::optional<Addend> addend, Problem problem, Operands operands,
                   Executor& executor) {
    const bool no_sum = problem.k == 0;
    if ((!no_sum && (operands.a == nullptr || operands.b == nullptr)) ||
        (addend && addend->data == nullptr)) {
      return NoMemory(*gpu());
    }
    const Device& device = gpu()->device();
    const NativeStream stream = executor.queue()->stream();
    const size_t y_bytes = static_cast<size_t>(problem.m * problem.n) * element_bytes();
    if (!addend) {
      return no_sum ? device.Fill(operands.c, 0, y_bytes, stream)
                    : state().Run(problem, operands, executor, node());
    }
    const bool full = addend->is_full(problem.m, problem.n);
    const size_t c_bytes = static_cast<size_t>(addend->elements()) * element_bytes();
    const bool in_place = full && addend->data == operands.c;
    Scratch copy;  // of a C that the result would overwrite while it is read
    if (!in_place && Overlap(addend->data, c_bytes, operands.c, y_bytes)) {
      copy = Scratch(*gpu()->memory(), c_bytes, stream);
      if (copy.data() == nullptr) return NoMemory(*gpu());
      TUNABLEOP_RETURN_IF_ERROR(
          device.Copy(copy.data(), addend->data, c_bytes, CopyKind::kDeviceToDevice, stream));
      addend->data = copy.data();
    }
    if (!no_sum && !in_place && beta_ == 1.0F && addend->is_row(problem.n) && has_bias_.load()) {
      Problem with_bias = problem;
      with_bias.epilogue = Epilogue::kBias;
      operands.bias = addend->data;
      Status status = state().Run(with_bias, operands, executor, node());
      if (status.code() != StatusCode::kNotSupported) return status;
      has_bias_.store(false);  // no library here has that epilogue for this type
      operands.bias = nullptr;
    }
    operands.beta = beta_;
    problem.beta = ClassOf(operands.beta);
    if (full && !in_place) {
      TUNABLEOP_RETURN_IF_ERROR(
          device.Copy(operands.c, addend->data, c_bytes, CopyKind::kDeviceToDevice, stream));
    } else if (!full) {
      TUNABLEOP_RETURN_IF_ERROR(
          LayUnderOnCard(*addend, operands.c, problem, *gpu(), state(), node(), executor));
    }
    if (!no_sum) return state().Run(problem, operands, executor, node());
    if (problem.beta == ScalarClass::kOne) return Status::Ok();
    return Scale(problem, operands, executor);
  }

  // y = beta * y: a product of ones that counts for nothing, since there is no other way to ask a
  // GEMM library.
  Status Scale(Problem problem, Operands operands, Executor& executor) {
    Result<const void*> ones =
        gpu()->Ones(type(), std::max(problem.m, problem.n), executor.queue()->stream());
    if (!ones.ok()) return ones.TakeStatus();
    problem.k = 1;
    problem.trans_a = 1;  // see LayUnderOnCard
    problem.trans_b = problem.b_constant = 0;
    problem.lda = problem.m;
    problem.ldb = problem.n;
    problem.alpha = ScalarClass::kZero;
    problem.align_a = problem.align_b = AlignmentClass(ones.value());
    operands.a = operands.b = ones.value();
    operands.alpha = 0.0F;
    return state().Run(problem, operands, executor, node());
  }

  float alpha_ = 1.0F;
  float beta_ = 1.0F;
  bool trans_a_ = false;
  bool trans_b_ = false;
  std::atomic<bool> has_bias_{true};  // until a card's libraries say otherwise
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
