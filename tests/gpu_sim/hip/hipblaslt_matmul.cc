// libhipblaslt: the heuristic and running.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "core/card.h"
#include "core/error.h"
#include "core/faults.h"
#include "core/flavour.h"
#include "core/launch.h"
#include "hip/hipblaslt_types.h"

namespace simgpu {
namespace {

// What changed with which release (major * 100000 + minor * 100).
constexpr long kChecksWorkspace = 100100;
constexpr long kChecksIndex = 100500;
constexpr long kSetsCount = 100500;

bool TypeOfHip(int type, Type* out) {
  switch (type) {
    case kHipF32:
      *out = Type::kF32;
      return true;
    case kHipF64:
      *out = Type::kF64;
      return true;
    case kHipF16:
      *out = Type::kF16;
      return true;
    case kHipBF16:
      *out = Type::kBF16;
      return true;
    default:
      return false;
  }
}

Compute ComputeOfHip(int compute) {
  switch (compute) {
    case kHip64F:
    case kHip64FPedantic:
      return Compute::kF64;
    case kHip32FFast16F:
      return Compute::kF16;
    case kHip32FFast16BF:
      return Compute::kBf16;
    case kHip32FFastTF32:
      return Compute::kTf32;
    default:
      return Compute::kF32;
  }
}

// Notices work through one handle on several streams at once.
void Watch(HipHandle& handle, const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(handle.mutex);
  if (handle.stream != nullptr && handle.stream != stream &&
      !IsDone(handle.stream, handle.ticket)) {
    Misuse("handle_on_several_streams");
  }
}
void NoteUse(HipHandle& handle, const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(handle.mutex);
  handle.stream = stream;
  handle.ticket = Ticket(stream);
}

}  // namespace

hipblasStatus_t DescribeHip(const void* descriptor, const void* a_layout, const void* b_layout,
                            const void* c_layout, const void* d_layout, HipProblem* problem) {
  const auto* const what = Checked<LtDescriptor>(descriptor);
  const auto* const a = Checked<LtLayout>(a_layout);
  const auto* const b = Checked<LtLayout>(b_layout);
  const auto* const c = Checked<LtLayout>(c_layout);
  const auto* const d = Checked<LtLayout>(d_layout);
  if (what == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr) {
    return kHipInvalidValue;
  }
  Type ab_type;
  Type c_type;
  if (!TypeOfHip(a->type, &ab_type) || !TypeOfHip(c->type, &c_type)) return kHipNotSupported;
  if (a->type != b->type || c->type != d->type) return kHipNotSupported;
  for (const int operation : {what->trans_a, what->trans_b}) {
    if (operation < kHipOpN || operation > kHipOpC) return kHipInvalidValue;
  }
  problem->kind = {what->compute, a->type, c->type, what->trans_a != kHipOpN,
                   what->trans_b != kHipOpN};
  const Shape shape = ShapeOf(*a, *b, *c, *d, problem->kind.trans_a, problem->kind.trans_b, ab_type,
                              c_type, c_type, &problem->gemm);
  if (shape == Shape::kBad) return kHipInvalidValue;
  // Its kernels are column-major.
  for (const LtLayout* layout : {a, b, c, d}) {
    if (layout->order != 0) return kHipNotSupported;
  }
  if (shape == Shape::kNotSupported || !KnownKind(problem->kind)) return kHipNotSupported;
  const int scale =
      what->compute == kHip64F || what->compute == kHip64FPedantic ? kHipF64 : kHipF32;
  if (what->scale_type != scale) return kHipNotSupported;
  Gemm& gemm = problem->gemm;
  gemm.compute = ComputeOfHip(what->compute);
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
      return kHipNotSupported;
  }
  return kHipSuccess;
}

}  // namespace simgpu

using simgpu::Checked;
using simgpu::Err;
using simgpu::HipAlgo;
using simgpu::HipResult;
using simgpu::LtDescriptor;
using simgpu::LtPreference;

extern "C" {

SIM_API hipblasStatus_t hipblasLtMatmulAlgoGetHeuristic(void* handle, void* descriptor, void* a,
                                                        void* b, void* c, void* d, void* preference,
                                                        int requested, HipResult* results,
                                                        int* returned) {
  if (results == nullptr || returned == nullptr || requested < 1) return kHipInvalidValue;
  // Releases before left the count as it was when they failed.
  if (simgpu::ThisFlavour().lt_version >= simgpu::kSetsCount) *returned = 0;
  if (const auto status = simgpu::CheckHipHandle(handle); status != kHipSuccess) return status;
  simgpu::HipProblem problem;
  const auto described = simgpu::DescribeHip(descriptor, a, b, c, d, &problem);
  if (described != kHipSuccess) return described;
  const auto* const wanted = Checked<LtPreference>(preference);
  if (wanted == nullptr) return kHipInvalidValue;
  simgpu::Count("heuristics");
  if (simgpu::FaultOn("heuristic_fails")) return kHipInternalError;
  *returned = 0;
  if (simgpu::FaultOn("no_heuristics")) return kHipSuccess;
  for (const HipResult& result :
       simgpu::HipHeuristic(problem, wanted->workspace, static_cast<size_t>(requested))) {
    results[(*returned)++] = result;
  }
  return kHipSuccess;
}

SIM_API hipblasStatus_t hipblasLtMatmul(void* handle, void* descriptor, const void* alpha,
                                        const void* a, void* a_layout, const void* b,
                                        void* b_layout, const void* beta, const void* c,
                                        void* c_layout, void* d, void* d_layout,
                                        const HipAlgo* algo, void* workspace,
                                        size_t workspace_bytes, void* stream) {
  if (const auto status = simgpu::CheckHipHandle(handle); status != kHipSuccess) return status;
  if (alpha == nullptr || beta == nullptr || a == nullptr || b == nullptr || c == nullptr ||
      d == nullptr) {
    return kHipInvalidValue;
  }
  simgpu::HipProblem problem;
  const auto described =
      simgpu::DescribeHip(descriptor, a_layout, b_layout, c_layout, d_layout, &problem);
  if (described != kHipSuccess) return described;
  std::shared_ptr<simgpu::Stream> queue;
  if (simgpu::FindStream(stream, &queue) != Err::kOk) return kHipInvalidValue;
  if (queue->card.ordinal != simgpu::Current()) {
    simgpu::Misuse("stream_of_another_card");
    return kHipInvalidValue;
  }
  // Which is the first of the list matters rarely.
  std::vector<HipResult> list;
  const bool asks = algo == nullptr || simgpu::FaultOn("wrong_but_first");
  if (asks) list = simgpu::HipHeuristic(problem, workspace_bytes, 1);
  HipAlgo used;
  if (algo != nullptr) {
    used = *algo;
  } else if (!list.empty()) {
    used = list[0].algo;
  } else {
    return kHipNotSupported;
  }
  const long version = simgpu::ThisFlavour().lt_version;
  simgpu::HipKind kind;
  int position = 0;
  if (!simgpu::FindIndex(used.index, &kind, &position)) {
    if (version < simgpu::kChecksIndex) simgpu::Crash("an algo that is not in the library");
    return kHipInvalidValue;
  }
  if (simgpu::IndexOf(kind, position) != simgpu::IndexOf(problem.kind, position)) {
    return kHipInvalidValue;  // a kernel for other types or transposes
  }
  if (used.prepared_for != simgpu::Preparation(problem)) simgpu::Misuse("algo_not_prepared");
  size_t needed = 0;
  if (!RunsHere(problem, position, &needed)) return kHipInvalidValue;
  if (needed > workspace_bytes || (needed != 0 && workspace == nullptr)) {
    if (version < simgpu::kChecksWorkspace) simgpu::Crash("a workspace that is too small");
    return kHipInvalidValue;
  }
  if (needed != 0 && reinterpret_cast<uintptr_t>(workspace) % 16 != 0) {
    simgpu::Misuse("workspace_alignment");
    return kHipInvalidValue;
  }

  simgpu::Launch launch;
  launch.gemm = problem.gemm;
  launch.gemm.a.data = static_cast<char*>(const_cast<void*>(a));
  launch.gemm.b.data = static_cast<char*>(const_cast<void*>(b));
  launch.gemm.c.data = static_cast<char*>(const_cast<void*>(c));
  launch.gemm.d.data = static_cast<char*>(d);
  const auto* const what = Checked<LtDescriptor>(descriptor);
  simgpu::TypeOfHip(what->scale_type, &launch.scale_type);
  if (what->pointer_mode == 0) {
    launch.gemm.alpha = simgpu::Load(static_cast<const char*>(alpha), launch.scale_type);
    launch.gemm.beta = simgpu::Load(static_cast<const char*>(beta), launch.scale_type);
  } else if (what->pointer_mode == 1) {
    launch.alpha = alpha;
    launch.beta = beta;
  } else {
    return kHipNotSupported;
  }
  if ((what->epilogue & 4) != 0) {
    if (what->bias == nullptr) return kHipInvalidValue;
    simgpu::Matrix& bias = launch.gemm.bias;
    bias.data = static_cast<char*>(what->bias);
    bias.type = launch.gemm.d.type;
    if (what->bias_type >= 0 && !simgpu::TypeOfHip(what->bias_type, &bias.type)) {
      return kHipNotSupported;
    }
    bias.row_stride = 1;
    bias.column_stride = 0;
    bias.batch_stride = what->bias_stride32;
  }
  launch.how = HipSummation(problem, position);
  launch.workspace = needed != 0 ? static_cast<char*>(workspace) : nullptr;
  launch.algo = simgpu::HipAlgoAt(problem.kind, position);
  launch.cost_id = position;
  launch.first = !asks || (!list.empty() && list[0].algo.index == used.index);
  switch (simgpu::RefusalOf(used.index)) {
    case simgpu::Refusal::kNotSupported:
      return kHipNotSupported;
    case simgpu::Refusal::kExecutionFailed:
      return kHipExecutionFailed;
    case simgpu::Refusal::kNone:
      break;
  }
  auto& owner = *Checked<simgpu::HipHandle>(handle);
  simgpu::Watch(owner, queue);
  const Err error = LaunchGemm(queue, launch);
  simgpu::NoteUse(owner, queue);
  return error == Err::kOk ? kHipSuccess : kHipExecutionFailed;
}

}  // extern "C"
