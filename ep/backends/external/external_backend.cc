#include "backends/external/external_backend.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/native_plan.h"
#include "backends/cpu/work_division.h"
#include "gemm/packed_b.h"

namespace tunableop {
namespace {

using cpu::Part;
using cpu::Split;
using cpu::WorkDivision;
using external::ExternalLibrary;
using external::kRowsSuffix;

// candidate_library.h repeats these, as it must not include anything of the project.
static_assert(static_cast<int>(DataType::kFloat64) == TUNABLEOP_FP64);
static_assert(static_cast<int>(ScalarClass::kOther) == TUNABLEOP_OTHER);
static_assert(static_cast<int>(Epilogue::kBiasGelu) == TUNABLEOP_BIAS_GELU);
static_assert(kGroupColumns == 64 && kColumnPad == 16);

TunableOpGemm ToGemm(const Problem& p) noexcept {
  TunableOpGemm g = {};
  g.m = p.m;
  g.n = p.n;
  g.k = p.k;
  g.batch = p.batch;
  g.lda = p.lda;
  g.ldb = p.ldb;
  g.ldc = p.ldc;
  g.stride_a = p.stride_a;
  g.stride_b = p.stride_b;
  g.stride_c = p.stride_c;
  g.a_type = static_cast<int32_t>(p.a_type);
  g.b_type = static_cast<int32_t>(p.b_type);
  g.c_type = static_cast<int32_t>(p.c_type);
  g.trans_a = p.trans_a;
  g.trans_b = p.trans_b;
  g.b_packed = p.b_layout == BLayout::kPacked ? 1 : 0;
  g.b_constant = p.b_constant;
  g.alpha = static_cast<int32_t>(p.alpha);
  g.beta = static_cast<int32_t>(p.beta);
  g.epilogue = static_cast<int32_t>(p.epilogue);
  g.align_a = p.align_a;
  g.align_b = p.align_b;
  g.align_c = p.align_c;
  g.threads = p.threads;
  return g;
}

// k == 0 is left out: there is nothing to be fast at, and it is easily got wrong.
bool MayBeAsked(const Problem& problem) {
  return Validate(problem).ok() && cpu::NativeSupports(problem) && problem.k > 0;
}

class ExternalPlan final : public Plan {
 public:
  ExternalPlan(const Problem& flat, Split split, const ExternalLibrary& library, uint32_t kernel)
      : gemm_(ToGemm(flat)),
        division_(split, flat.threads, flat.batch, flat.m, PackedGroupCount(flat.n), flat.m,
                  flat.n),
        run_(library.functions->run),
        kernel_(kernel),
        name_(library.name + ":" + library.kernels[kernel]) {}

  Status Run(const Operands& operands, Executor& executor) const noexcept override {
    if (gemm_.m == 0 || gemm_.n == 0 || gemm_.batch == 0) return Status::Ok();
    const TunableOpOperands all = {operands.a,    operands.b,     operands.packed_b, operands.c,
                                   operands.bias, operands.alpha, operands.beta};
    if (division_.count() == 1) return Judge(run_(kernel_, &gemm_, &all));
    struct Call {
      const ExternalPlan* plan;
      const TunableOpOperands* operands;
      std::atomic<int> code;
    };
    Call call{this, &all, 0};
    executor.ParallelFor(
        static_cast<size_t>(division_.count()),
        [](void* context, size_t index) {
          auto* shared = static_cast<Call*>(context);
          const Part part = shared->plan->division_.Get(static_cast<int64_t>(index));
          const int code = shared->plan->RunRows(*shared->operands, part);
          if (code != 0) shared->code.store(code, std::memory_order_relaxed);
        },
        &call);
    return Judge(call.code.load(std::memory_order_relaxed));
  }

 private:
  int RunRows(const TunableOpOperands& all, const Part& part) const noexcept {
    if (part.row_begin >= part.row_end) return 0;
    TunableOpGemm gemm = gemm_;
    gemm.m = part.row_end - part.row_begin;
    TunableOpOperands rows = all;
    rows.a = static_cast<const float*>(all.a) + part.row_begin * (gemm.trans_a ? 1 : gemm.lda);
    rows.c = static_cast<float*>(all.c) + part.row_begin * gemm.ldc;
    gemm.align_a = AlignmentClass(rows.a);
    gemm.align_c = AlignmentClass(rows.c);
    return run_(kernel_, &gemm, &rows);
  }

  Status Judge(int code) const noexcept {
    if (code == 0) [[likely]] {
      return Status::Ok();
    }
    return {StatusCode::kInternal, name_ + " returned " + std::to_string(code)};
  }

  const TunableOpGemm gemm_;
  const WorkDivision division_;
  int (*const run_)(uint32_t, const TunableOpGemm*, const TunableOpOperands*);
  const uint32_t kernel_;
  const std::string name_;
};

class ExternalBackend final : public Backend {
 public:
  explicit ExternalBackend(ExternalLibrary library) : library_(std::move(library)) {}

  std::string_view library() const noexcept override { return library_.name; }
  std::string identity() const override { return library_.identity; }
  bool may_hang() const noexcept override { return true; }  // it is a stranger's code

  // Both scopes are the same: who brings a kernel wants to see it race.
  std::vector<Candidate> Candidates(const Problem& problem, CandidateScope) const override {
    std::vector<Candidate> candidates;
    if (!MayBeAsked(problem)) return candidates;
    const Problem flat = cpu::Flattened(problem);
    const TunableOpGemm gemm = ToGemm(flat);
    for (uint32_t i = 0; i < library_.kernels.size(); ++i) {
      if (library_.functions->supports(i, &gemm) == 0) continue;
      if (flat.threads > 1 && flat.m > 1 && RowsAreIndependent(i)) {
        candidates.push_back({library_.name, library_.kernels[i] + std::string(kRowsSuffix)});
      }
      candidates.push_back({library_.name, library_.kernels[i]});
    }
    return candidates;
  }

  Result<std::unique_ptr<Plan>> Prepare(const Problem& problem,
                                        const Candidate& candidate) const override {
    std::string_view name = candidate.kernel;
    const bool rows = name.ends_with(kRowsSuffix);
    if (rows) name.remove_suffix(kRowsSuffix.size());
    const auto found = std::find(library_.kernels.begin(), library_.kernels.end(), name);
    if (candidate.library != library_.name || found == library_.kernels.end()) {
      return Status(StatusCode::kNotFound,
                    library_.path + " has no kernel " + candidate.FullName());
    }
    const auto kernel = static_cast<uint32_t>(std::distance(library_.kernels.begin(), found));
    TUNABLEOP_RETURN_IF_ERROR(Validate(problem));
    const Problem flat = cpu::Flattened(problem);
    const TunableOpGemm gemm = ToGemm(flat);
    if (!MayBeAsked(problem) || library_.functions->supports(kernel, &gemm) == 0 ||
        (rows && !RowsAreIndependent(kernel))) {
      return Status(StatusCode::kNotSupported,
                    candidate.FullName() + " cannot compute " + ToString(problem));
    }
    return std::unique_ptr<Plan>(
        std::make_unique<ExternalPlan>(flat, rows ? Split::kRows : Split::kNone, library_, kernel));
  }

 private:
  bool RowsAreIndependent(uint32_t kernel) const {
    return library_.functions->rows_are_independent != nullptr &&
           library_.functions->rows_are_independent(kernel) != 0;
  }

  const ExternalLibrary library_;
};

}  // namespace

std::shared_ptr<const Backend> MakeExternalBackend(ExternalLibrary library) {
  return std::make_shared<ExternalBackend>(std::move(library));
}

}  // namespace tunableop
