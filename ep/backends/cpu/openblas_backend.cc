#include "backends/cpu/openblas_backend.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/instruction_sets.h"
#include "backends/cpu/native_plan.h"
#include "backends/cpu/work_division.h"
#include "gemm/packed_b.h"

namespace tunableop {
namespace {

using cpu::OpenBlasLibrary;
using cpu::Part;
using cpu::Split;
using cpu::WorkDivision;

constexpr std::string_view kOpenBlas = "openblas";
constexpr std::string_view kPrefix = "sgemm/";
// cblas.h
constexpr int kRowMajor = 101;
constexpr int kNoTrans = 111;
constexpr int kTrans = 112;

// k == 0 is left out: it is a copy, and BLAS implementations differ in what they make of it.
bool Supports(const Problem& problem) {
  const Problem p = cpu::Flattened(problem);
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  return cpu::NativeSupports(p) && p.k > 0 && p.m <= kMax && p.n <= kMax && p.k <= kMax &&
         p.lda <= kMax && p.ldb <= kMax && p.ldc <= kMax;
}

class OpenBlasPlan final : public Plan {
 public:
  OpenBlasPlan(const Problem& problem, Split split, OpenBlasLibrary::Sgemm sgemm) noexcept
      : problem_(cpu::Flattened(problem)),
        division_(split, problem_.threads, problem_.batch, problem_.m, PackedGroupCount(problem_.n),
                  problem_.m, problem_.n),
        sgemm_(sgemm),
        epilogue_(cpu::RunnableKernels().front()->epilogue) {}

  Status Run(const Operands& operands, Executor& executor) const noexcept override {
    if (problem_.m == 0 || problem_.n == 0 || problem_.batch == 0) return Status::Ok();
    if (division_.count() == 1) {
      RunPart(operands, division_.Get(0));
      return Status::Ok();
    }
    struct Call {
      const OpenBlasPlan* plan;
      const Operands* operands;
    };
    Call call{this, &operands};
    executor.ParallelFor(
        static_cast<size_t>(division_.count()),
        [](void* context, size_t index) {
          const auto* shared = static_cast<const Call*>(context);
          shared->plan->RunPart(*shared->operands,
                                shared->plan->division_.Get(static_cast<int64_t>(index)));
        },
        &call);
    return Status::Ok();
  }

 private:
  void RunPart(const Operands& operands, const Part& part) const noexcept {
    const Problem& p = problem_;
    if (part.row_begin >= part.row_end || part.column_begin >= part.column_end) return;
    const int64_t column = part.column_begin * kGroupColumns;
    const int64_t column_end = std::min(p.n, part.column_end * kGroupColumns);
    for (int64_t item = part.item_begin; item < part.item_end; ++item) {
      const float* a = static_cast<const float*>(operands.a) + item * p.stride_a +
                       part.row_begin * (p.trans_a != 0 ? 1 : p.lda);
      float* c = static_cast<float*>(operands.c) + item * p.stride_c + part.row_begin * p.ldc;
      if (p.b_layout == BLayout::kPacked) {
        const float* packed = operands.packed_b + item * p.stride_b;
        for (int64_t group = part.column_begin; group < part.column_end; ++group) {
          const int64_t start = group * kGroupColumns;
          Multiply(operands, part, a, packed + start * p.k, PackedGroupWidth(p.n, group),
                   std::min(kGroupColumns, p.n - start), c + start);
        }
      } else {
        const float* b = static_cast<const float*>(operands.b) + item * p.stride_b +
                         column * (p.trans_b != 0 ? p.ldb : 1);
        Multiply(operands, part, a, b, p.ldb, column_end - column, c + column);
      }
      const float* bias = cpu::BiasOf(p, operands);
      epilogue_(c + column, p.ldc, part.row_end - part.row_begin, column_end - column,
                bias == nullptr ? nullptr : bias + column, cpu::ActivationOf(p.epilogue));
    }
  }

  void Multiply(const Operands& operands, const Part& part, const float* a, const float* b,
                int64_t ldb, int64_t columns, float* c) const noexcept {
    const Problem& p = problem_;
    sgemm_(kRowMajor, p.trans_a != 0 ? kTrans : kNoTrans, p.trans_b != 0 ? kTrans : kNoTrans,
           static_cast<int32_t>(part.row_end - part.row_begin), static_cast<int32_t>(columns),
           static_cast<int32_t>(p.k), operands.alpha, a, static_cast<int32_t>(p.lda), b,
           static_cast<int32_t>(ldb), operands.beta, c, static_cast<int32_t>(p.ldc));
  }

  const Problem problem_;  // flattened
  const WorkDivision division_;
  const OpenBlasLibrary::Sgemm sgemm_;
  const cpu::EpilogueFunction epilogue_;
};

class OpenBlasBackend final : public Backend {
 public:
  explicit OpenBlasBackend(OpenBlasLibrary library) : library_(std::move(library)) {}

  std::string_view library() const noexcept override { return kOpenBlas; }
  std::string identity() const override { return library_.version + "+" + library_.core; }

  std::vector<Candidate> Candidates(const Problem& problem, CandidateScope scope) const override {
    if (!Validate(problem).ok() || !Supports(problem)) return {};
    const Problem p = cpu::Flattened(problem);
    std::vector<Split> splits;
    if (p.threads <= 1) {
      splits = {Split::kNone};
    } else if (p.batch >= p.threads) {
      splits = {Split::kBatch, Split::kNone};
    } else if (p.m >= p.n) {
      splits = {Split::kRows, Split::kColumns, Split::kGrid, Split::kNone};
    } else {
      splits = {Split::kColumns, Split::kRows, Split::kGrid, Split::kNone};
    }
    // Two suffice for a first look: the longer side divided, or nothing.
    if (scope == CandidateScope::kDefault && splits.size() > 2) splits = {splits[0], splits[1]};
    std::vector<Candidate> candidates;
    for (const Split split : splits) {
      std::string kernel(kPrefix);
      kernel += Name(split);
      candidates.push_back(Candidate{std::string(kOpenBlas), std::move(kernel), -1, 0});
    }
    return candidates;
  }

  Result<std::unique_ptr<Plan>> Prepare(const Problem& problem,
                                        const Candidate& candidate) const override {
    const std::string_view kernel = candidate.kernel;
    const auto split =
        kernel.starts_with(kPrefix) ? cpu::ParseSplit(kernel.substr(kPrefix.size())) : std::nullopt;
    if (candidate.library != kOpenBlas || !split) {
      return Status(StatusCode::kNotFound, "no OpenBLAS kernel: " + candidate.FullName());
    }
    TUNABLEOP_RETURN_IF_ERROR(Validate(problem));
    if (!Supports(problem)) {
      return Status(StatusCode::kNotSupported, "OpenBLAS cannot compute " + ToString(problem));
    }
    return std::unique_ptr<Plan>(std::make_unique<OpenBlasPlan>(problem, *split, library_.sgemm));
  }

 private:
  const OpenBlasLibrary library_;
};

}  // namespace

std::shared_ptr<const Backend> MakeOpenBlasBackend(OpenBlasLibrary library) {
  return std::make_shared<OpenBlasBackend>(std::move(library));
}

}  // namespace tunableop
