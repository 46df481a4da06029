// libcublasLt: running.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "core/card.h"
#include "core/error.h"
#include "core/faults.h"
#include "core/launch.h"
#include "cuda/cublaslt_problem.h"

namespace simgpu {
namespace {

bool SameConfig(const Config& a, const Config& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

uint32_t Step(const LtLayout& layout, Type type) {
  const auto size = static_cast<int64_t>(SizeOf(type));
  int64_t step = layout.ld * size;
  if (layout.batch > 1) step |= layout.batch_stride * size;
  step &= 255;
  return step == 0 ? 256u : static_cast<uint32_t>(step & -step);
}

bool Aligned(const void* address, uint32_t to) {
  return reinterpret_cast<uintptr_t>(address) % to == 0;
}

bool IsFirst(const LtProblem& problem, const Config& config, size_t workspace) {
  if (!FaultOn("wrong_but_first")) return true;
  LtPreference preference;
  preference.workspace = workspace;
  const std::vector<Config> list = Heuristic(problem, preference, 1);
  return !list.empty() && SameConfig(list[0], config);
}

Compute ComputeOf(int compute) {
  switch (compute) {
    case 70:
    case 71:
      return Compute::kF64;
    case 74:
      return Compute::kF16;
    case 75:
      return Compute::kBf16;
    case 77:
      return Compute::kTf32;
    default:
      return Compute::kF32;
  }
}

}  // namespace

int CheckHandle(void* handle) {
  const LtHandle* const typed = Checked<LtHandle>(handle);
  if (typed == nullptr) return kNotInitialized;
  if (Healthy() != Err::kOk) return kExecutionFailed;
  if (typed->ordinal == Current()) return kSuccess;
  Misuse("handle_of_another_card");
  return kInvalidValue;
}

int Describe(const void* descriptor, const void* a_layout, const void* b_layout,
             const void* c_layout, const void* d_layout, LtProblem* problem) {
  const auto* const what = Checked<LtDescriptor>(descriptor);
  const auto* const a = Checked<LtLayout>(a_layout);
  const auto* const b = Checked<LtLayout>(b_layout);
  const auto* const c = Checked<LtLayout>(c_layout);
  const auto* const d = Checked<LtLayout>(d_layout);
  if (what == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr) {
    return kInvalidValue;
  }
  Type ab_type;
  Type c_type;
  Type d_type;
  if (!TypeOf(a->type, &ab_type) || !TypeOf(c->type, &c_type) || !TypeOf(d->type, &d_type)) {
    return kNotSupported;
  }
  // cublasOperation_t: N 0, T 1, C 2
  if (what->trans_a < 0 || what->trans_a > 2 || what->trans_b < 0 || what->trans_b > 2) {
    return kInvalidValue;
  }
  if (what->trans_c != 0 || what->fill_mode != 0) return kNotSupported;
  const Shape shape = ShapeOf(*a, *b, *c, *d, what->trans_a != 0, what->trans_b != 0, ab_type,
                              c_type, d_type, &problem->gemm);
  if (shape == Shape::kBad) return kInvalidValue;
  if (shape == Shape::kNotSupported) return kNotSupported;
  if (Ids(what->compute, what->scale_type, a->type, b->type, c->type, d->type).empty()) {
    return kNotSupported;
  }
  Gemm& gemm = problem->gemm;
  gemm.compute = ComputeOf(what->compute);
  problem->compute = what->compute;
  problem->scale_type = what->scale_type;
  problem->a_type = a->type;
  problem->c_type = c->type;
  problem->d_type = d->type;
  problem->epilogue = what->epilogue;
  switch (what->epilogue) {
    case 1:
    case 4:
      break;
    case 2:
    case 6:
      gemm.activation = Activation::kRelu;
      break;
    case 32:
    case 36:
      gemm.activation = Activation::kGelu;
      break;
    default:
      return kNotSupported;
  }
  if (what->epilogue != 1 && d_type == Type::kF64) return kNotSupported;
  problem->step[0] = Step(*a, ab_type);
  problem->step[1] = Step(*b, ab_type);
  problem->step[2] = Step(*c, c_type);
  problem->step[3] = Step(*d, d_type);
  return kSuccess;
}

}  // namespace simgpu

using simgpu::Config;
using simgpu::Err;
using simgpu::kExecutionFailed;
using simgpu::kInvalidValue;
using simgpu::kNotSupported;
using simgpu::kSuccess;
using simgpu::LtDescriptor;
using simgpu::LtLayout;
using simgpu::Type;

extern "C" {

SIM_API int cublasLtMatmul(void* handle, void* descriptor, const void* alpha, const void* a,
                           void* a_layout, const void* b, void* b_layout, const void* beta,
                           const void* c, void* c_layout, void* d, void* d_layout, const void* algo,
                           void* workspace, size_t workspace_bytes, void* stream) {
  if (const int status = simgpu::CheckHandle(handle); status != kSuccess) return status;
  if (alpha == nullptr || beta == nullptr || a == nullptr || b == nullptr || d == nullptr) {
    return kInvalidValue;
  }
  simgpu::LtProblem problem;
  const int described =
      simgpu::Describe(descriptor, a_layout, b_layout, c_layout, d_layout, &problem);
  if (described != kSuccess) return described;
  std::shared_ptr<simgpu::Stream> queue;
  if (simgpu::FindStream(stream, &queue) != Err::kOk) return kInvalidValue;
  if (queue->card.ordinal != simgpu::Current()) {
    simgpu::Misuse("stream_of_another_card");
    return kInvalidValue;
  }
  Config config;
  if (algo != nullptr) {
    std::memcpy(&config, algo, sizeof config);
  } else {
    simgpu::LtPreference preference;
    preference.workspace = workspace_bytes;
    const std::vector<Config> list = simgpu::Heuristic(problem, preference, 1);
    if (list.empty()) return kNotSupported;
    config = list[0];
  }
  size_t needed = 0;
  const int valid = Validate(config, problem, &needed);
  if (valid != kSuccess) return valid;
  if (needed > workspace_bytes || (needed != 0 && workspace == nullptr)) return kInvalidValue;
  const uint32_t alignment = simgpu::FamilyOf(config.id)->alignment;
  const void* const c_used = c == nullptr ? d : c;
  for (const void* address : {a, b, c_used, static_cast<const void*>(d)}) {
    if (!simgpu::Aligned(address, alignment)) return kNotSupported;
  }
  if (needed != 0 && !simgpu::Aligned(workspace, 16)) return kInvalidValue;

  simgpu::Launch launch;
  launch.gemm = problem.gemm;
  launch.gemm.a.data = static_cast<char*>(const_cast<void*>(a));
  launch.gemm.b.data = static_cast<char*>(const_cast<void*>(b));
  launch.gemm.c.data = static_cast<char*>(const_cast<void*>(c_used));
  launch.gemm.d.data = static_cast<char*>(d);
  const auto* const what = simgpu::Checked<LtDescriptor>(descriptor);
  simgpu::TypeOf(what->scale_type, &launch.scale_type);
  if (what->pointer_mode == 0) {
    launch.gemm.alpha = simgpu::Load(static_cast<const char*>(alpha), launch.scale_type);
    launch.gemm.beta = simgpu::Load(static_cast<const char*>(beta), launch.scale_type);
    if (c == nullptr && launch.gemm.beta != 0) return kInvalidValue;
  } else if (what->pointer_mode == 1) {
    launch.alpha = alpha;
    launch.beta = beta;
  } else {
    return kNotSupported;
  }
  if ((what->epilogue & 4) != 0) {
    if (what->bias == nullptr) return kInvalidValue;
    simgpu::Matrix& bias = launch.gemm.bias;
    bias.data = static_cast<char*>(what->bias);
    bias.type = launch.gemm.d.type;
    if (what->bias_type >= 0 && !simgpu::TypeOf(what->bias_type, &bias.type)) return kNotSupported;
    bias.row_stride = 1;
    bias.column_stride = 0;
    bias.batch_stride = what->bias_stride;
  }
  launch.how = SummationOf(config, problem);
  launch.workspace = needed != 0 ? static_cast<char*>(workspace) : nullptr;
  launch.algo = AlgoOf(config);
  launch.first = algo == nullptr || simgpu::IsFirst(problem, config, workspace_bytes);
  switch (simgpu::RefusalOf(config.id)) {
    case simgpu::Refusal::kNotSupported:
      return kNotSupported;
    case simgpu::Refusal::kExecutionFailed:
      return kExecutionFailed;
    case simgpu::Refusal::kNone:
      break;
  }
  return LaunchGemm(queue, launch) == Err::kOk ? kSuccess : kExecutionFailed;
}

SIM_API int cublasLtMatrixTransform(void* handle, void* descriptor, const void* alpha,
                                    const void* a, void* a_layout, const void* beta, const void* b,
                                    void* b_layout, void* c, void* c_layout, void* stream) {
  if (const int status = simgpu::CheckHandle(handle); status != kSuccess) return status;
  const auto* const what = simgpu::Checked<LtDescriptor>(descriptor);
  const auto* const from = simgpu::Checked<LtLayout>(a_layout);
  const auto* const to = simgpu::Checked<LtLayout>(c_layout);
  if (what == nullptr || from == nullptr || to == nullptr || a == nullptr || c == nullptr) {
    return kInvalidValue;
  }
  std::shared_ptr<simgpu::Stream> queue;
  if (simgpu::FindStream(stream, &queue) != Err::kOk) return kInvalidValue;
  if (queue->card.ordinal != simgpu::Current()) return kInvalidValue;
  Type from_type;
  Type to_type;
  Type scale_type;
  if (!simgpu::TypeOf(from->type, &from_type) || !simgpu::TypeOf(to->type, &to_type) ||
      !simgpu::TypeOf(what->scale_type, &scale_type) || what->pointer_mode != 0) {
    return kNotSupported;
  }
  const bool transposed = what->trans_a != 0;
  const auto rows = static_cast<int64_t>(to->rows);
  const auto columns = static_cast<int64_t>(to->columns);
  if (static_cast<int64_t>(transposed ? from->columns : from->rows) != rows ||
      static_cast<int64_t>(transposed ? from->rows : from->columns) != columns ||
      from->batch != to->batch) {
    return kInvalidValue;
  }
  simgpu::Matrix source = View(*from, from_type, transposed);
  source.data = static_cast<char*>(const_cast<void*>(a));
  simgpu::Matrix target = View(*to, to_type, false);
  target.data = static_cast<char*>(c);
  double scale_b = 0;
  simgpu::Matrix other;
  if (b != nullptr) {
    const auto* const second = simgpu::Checked<LtLayout>(b_layout);
    Type type;
    if (second == nullptr || beta == nullptr || !simgpu::TypeOf(second->type, &type)) {
      return kInvalidValue;
    }
    other = View(*second, type, what->trans_b != 0);
    other.data = static_cast<char*>(const_cast<void*>(b));
    scale_b = simgpu::Load(static_cast<const char*>(beta), scale_type);
  }
  const double scale_a = simgpu::Load(static_cast<const char*>(alpha), scale_type);
  const Err error =
      LaunchTransform(queue, source, other, target, rows, columns, to->batch, scale_a, scale_b);
  return error == Err::kOk ? kSuccess : kExecutionFailed;
}

}  // extern "C"
