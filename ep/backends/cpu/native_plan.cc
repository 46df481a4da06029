#include "backends/cpu/native_plan.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/loop_nest.h"
#include "gemm/packed_b.h"

namespace tunableop::cpu {
namespace {

WorkDivision Divide(const Problem& p, const KernelConfig& config) noexcept {
  if (!config.dot) {
    return {config.split, p.threads, p.batch, p.m, PackedGroupCount(p.n), p.m, p.n};
  }
  const Split split = config.split == Split::kRows ? Split::kColumns : config.split;
  return {split, p.threads, p.batch, 1, p.n == 1 ? p.m : p.n, 1, p.n == 1 ? p.m : p.n};
}

}  // namespace

bool NativeSupports(const Problem& p) noexcept {
  return p.a_type == DataType::kFloat32 && p.b_type == DataType::kFloat32 &&
         p.c_type == DataType::kFloat32 && p.precision == Precision::kExact;
}

bool DotSupports(const Problem& p) noexcept {
  const bool packed = p.b_layout == BLayout::kPacked;
  if (p.n == 1 && p.trans_a == 0) return packed || p.trans_b != 0 || p.ldb == 1;
  const bool a_along_k = p.trans_a == 0 || p.lda == 1;
  return p.m == 1 && a_along_k && !packed && p.trans_b != 0;
}

NativePlan::NativePlan(const Problem& problem, const KernelConfig& config) noexcept
    : problem_(Flattened(problem)), config_(config), division_(Divide(problem_, config)) {}

bool NativePlan::RunPart(const Operands& operands, const Part& part) const noexcept {
  for (int64_t item = part.item_begin; item < part.item_end; ++item) {
    if (config_.dot) {
      RunDot(problem_, config_, operands, item, part.column_begin, part.column_end);
    } else if (!RunBlock(problem_, config_, operands, item, part)) {
      return false;
    }
  }
  return true;
}

Status NativePlan::Run(const Operands& operands, Executor& executor) const noexcept {
  if (problem_.m == 0 || problem_.n == 0 || problem_.batch == 0) return Status::Ok();
  bool done = true;
  if (division_.count() == 1) {
    done = RunPart(operands, division_.Get(0));
  } else {
    struct Call {
      const NativePlan* plan;
      const Operands* operands;
      std::atomic<bool> done;
    };
    Call call{this, &operands, true};
    executor.ParallelFor(
        static_cast<size_t>(division_.count()),
        [](void* context, size_t index) {
          auto* shared = static_cast<Call*>(context);
          const NativePlan* plan = shared->plan;
          const Part part = plan->division_.Get(static_cast<int64_t>(index));
          if (!plan->RunPart(*shared->operands, part)) {
            shared->done.store(false, std::memory_order_relaxed);
          }
        },
        &call);
    done = call.done.load(std::memory_order_relaxed);
  }
  if (!done) [[unlikely]] {
    return {StatusCode::kOutOfMemory, "native kernel: no memory for packed blocks"};
  }
  return Status::Ok();
}

}  // namespace tunableop::cpu
