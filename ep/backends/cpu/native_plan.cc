#include "backends/cpu/native_plan.h"

#include <algorithm>
#include <atomic>

#include "backends/cpu/loop_nest.h"
#include "gemm/packed_b.h"

namespace tunableop::cpu {
namespace {

// Largest number of parts that divides `threads` and does not exceed its square root: 6 -> 2 x 3.
int64_t NearSquareFactor(int64_t threads) {
  int64_t factor = 1;
  for (int64_t i = 2; i * i <= threads; ++i) {
    if (threads % i == 0) factor = i;
  }
  return factor;
}

}  // namespace

bool NativeSupports(const Problem& p) noexcept {
  return p.a_type == DataType::kFloat32 && p.b_type == DataType::kFloat32 &&
         p.c_type == DataType::kFloat32 && p.precision == Precision::kExact;
}

bool DotSupports(const Problem& p) noexcept {
  const bool packed = p.b_layout == BLayout::kPacked;
  const bool a_along_k = p.trans_a == 0 || p.lda == 1;
  if (!a_along_k) return false;
  if (p.n == 1 && p.trans_a == 0) return packed || p.trans_b != 0 || p.ldb == 1;
  return p.m == 1 && !packed && p.trans_b != 0;
}

Problem Flattened(const Problem& problem) noexcept {
  Problem flat = problem;
  if (problem.batch > 1 && problem.stride_b == 0 && problem.trans_a == 0 &&
      problem.stride_a == problem.m * problem.lda && problem.stride_c == problem.m * problem.ldc) {
    flat.m = problem.m * problem.batch;
    flat.batch = 1;
    flat.stride_a = 0;
    flat.stride_c = 0;
  }
  return flat;
}

struct NativePlan::Call {
  const NativePlan* plan;
  const Operands* operands;
  std::atomic<bool> out_of_memory{false};
};

NativePlan::NativePlan(const Problem& problem, const KernelConfig& config) noexcept
    : problem_(Flattened(problem)), config_(config) {
  const Problem& p = problem_;
  rows_ = p.m;
  columns_ = PackedGroupCount(p.n);
  if (config.dot) {
    rows_ = 1;
    columns_ = p.n == 1 ? p.m : p.n;
  }
  const int64_t threads = std::max<int64_t>(1, p.threads);
  switch (config.split) {
    case Split::kNone:
      break;
    case Split::kRows:
      row_parts_ = threads;
      break;
    case Split::kColumns:
      column_parts_ = threads;
      break;
    case Split::kGrid:
      row_parts_ = NearSquareFactor(threads);
      column_parts_ = threads / row_parts_;
      // The longer side gets the larger factor.
      if ((p.m > p.n) != (row_parts_ > column_parts_)) std::swap(row_parts_, column_parts_);
      break;
    case Split::kBatch:
      item_parts_ = threads;
      break;
  }
  if (config.dot && config.split == Split::kRows) std::swap(row_parts_, column_parts_);
  item_parts_ = std::clamp<int64_t>(item_parts_, 1, std::max<int64_t>(1, p.batch));
  row_parts_ = std::clamp<int64_t>(row_parts_, 1, std::max<int64_t>(1, rows_));
  column_parts_ = std::clamp<int64_t>(column_parts_, 1, std::max<int64_t>(1, columns_));
}

void NativePlan::RunPart(Call* call, int64_t index) const noexcept {
  const int64_t column_part = index % column_parts_;
  index /= column_parts_;
  const int64_t row_part = index % row_parts_;
  const int64_t item_part = index / row_parts_;
  Block block;
  block.row_begin = rows_ * row_part / row_parts_;
  block.row_end = rows_ * (row_part + 1) / row_parts_;
  block.group_begin = columns_ * column_part / column_parts_;
  block.group_end = columns_ * (column_part + 1) / column_parts_;
  const int64_t item_end = problem_.batch * (item_part + 1) / item_parts_;
  for (block.item = problem_.batch * item_part / item_parts_; block.item < item_end; ++block.item) {
    if (config_.dot) {
      RunDot(problem_, config_, *call->operands, block.item, block.group_begin, block.group_end);
    } else if (!RunBlock(problem_, config_, *call->operands, block)) {
      call->out_of_memory.store(true, std::memory_order_relaxed);
      return;
    }
  }
}

Status NativePlan::Run(const Operands& operands, Executor& executor) const noexcept {
  if (problem_.m == 0 || problem_.n == 0 || problem_.batch == 0) return Status::Ok();
  Call call{this, &operands};
  const int64_t parts = item_parts_ * row_parts_ * column_parts_;
  if (parts == 1) {
    RunPart(&call, 0);
  } else {
    executor.ParallelFor(
        static_cast<size_t>(parts),
        [](void* context, size_t index) {
          auto* shared = static_cast<Call*>(context);
          shared->plan->RunPart(shared, static_cast<int64_t>(index));
        },
        &call);
  }
  if (call.out_of_memory.load(std::memory_order_relaxed)) [[unlikely]] {
    return {StatusCode::kOutOfMemory, "native kernel: no memory for packed blocks"};
  }
  return Status::Ok();
}

}  // namespace tunableop::cpu
