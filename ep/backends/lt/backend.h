// The backend that both vendors share. `K` is CudaKernels or HipKernels.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backends/lt/core.h"
#include "backends/lt/lt_backend.h"
#include "backends/lt/plan.h"
#include "backends/lt/random.h"
#include "gemm/backend.h"

namespace tunableop::lt {

// Of a kernel that reads Operands::b_transposed.
inline constexpr std::string_view kTransposedSuffix = "/bt";
// How many of the library's list for the transposed copy are offered beside its list for B.
inline constexpr size_t kTransposedDefault = 4;

inline bool IsTransposed(std::string_view kernel) { return kernel.ends_with(kTransposedSuffix); }
// Without the suffix.
inline std::string_view Bare(std::string_view kernel) {
  if (IsTransposed(kernel)) kernel.remove_suffix(kTransposedSuffix.size());
  return kernel;
}

template <typename K>
class LtBackend final : public Backend {
  using V = typename K::Traits;

 public:
  LtBackend(std::shared_ptr<Core<V>> core, K kernels, std::string identity)
      : core_(std::move(core)), kernels_(std::move(kernels)), identity_(std::move(identity)) {}

  static Result<std::shared_ptr<const Backend>> Make(std::shared_ptr<const Device> device,
                                                     const VendorLibrary& library) {
    if (device->backend() != V::kBackend) {
      return Status(StatusCode::kInvalidArgument,
                    std::string(V::kLibrary) + " does not run on " + device->info().name);
    }
    Result<Api<V>> api = Api<V>::Load(library);
    if (!api.ok()) return api.TakeStatus();
    Result<K> kernels = K::Load(library);
    if (!kernels.ok()) return kernels.TakeStatus();
    const std::string arch = device->info().arch;
    auto core = std::make_shared<Core<V>>(std::move(device), api.value());
    Result<std::string> version = kernels.value().Version(*core);
    if (!version.ok()) {
      // No handle: mostly for want of memory, of which there may be some another time.
      if (version.status().code() != StatusCode::kNotSupported) return version.TakeStatus();
      return Status(StatusCode::kNotSupported,
                    std::string(version.status().message()) + " (" + arch + ")");
    }
    std::string identity = version.value() + "+" + arch;
    auto backend = std::make_shared<LtBackend>(std::move(core), std::move(kernels).value(),
                                               std::move(identity));
    if (K::kMayLackTheCard && !backend->HasAnyKernel()) {
      return Status(StatusCode::kNotSupported, std::string(V::kLibrary) + " " + version.value() +
                                                   " has no kernels for " + arch);
    }
    return std::shared_ptr<const Backend>(std::move(backend));
  }

  std::string_view library() const noexcept override { return V::kLibrary; }
  std::string identity() const override { return identity_; }
  Status Ready() const override { return Asking<V>(*core_).TakeStatus(); }
  std::optional<bool> KnownToRun(DataType type) const noexcept override {
    return K::KnownToRun(identity_, core_->device->info().arch, type);
  }

  std::vector<Candidate> Candidates(const Problem& problem, CandidateScope scope) const override {
    const bool all = scope == CandidateScope::kAll;
    const int count = all ? V::kAllRequest : V::kDefaultRequest;
    std::vector<Candidate> candidates;
    Append(List(problem, false, count), std::string_view(), candidates.max_size(), candidates);
    if (!candidates.empty() && CanReadTransposedB(problem)) {
      Append(List(problem, true, count), kTransposedSuffix,
             all ? candidates.max_size() : kTransposedDefault, candidates);
    }
    return candidates;
  }

  std::vector<Candidate> Explore(const Problem& problem, std::span<const TimedCandidate> known,
                                 uint64_t seed, size_t count) const override {
    std::unordered_set<std::string> names;
    std::vector<std::string_view> bare_names;
    std::vector<const TimedCandidate*> timed;
    for (const TimedCandidate& one : known) {
      if (one.candidate.library != V::kLibrary) continue;
      names.insert(one.candidate.kernel);
      bare_names.push_back(Bare(one.candidate.kernel));
      if (one.ms > 0.0) timed.push_back(&one);
    }
    std::stable_sort(timed.begin(), timed.end(),
                     [](const auto* x, const auto* y) { return x->ms < y->ms; });
    const size_t bases = std::min(timed.size(), kBases);

    Random random(seed ^ 0x6C74ULL);
    std::vector<Candidate> found;
    if (bases == 0) {
      const bool both = CanReadTransposedB(problem);
      const auto draw = [&](const Description<V>& description, size_t wanted,
                            const auto& is_known) {
        return kernels_.Draw(*core_, description, bare_names, random, wanted, is_known);
      };
      Search(problem, both ? count - count / 2 : count, false, names, found, draw);
      if (both) Search(problem, count - found.size(), true, names, found, draw);
      return found;
    }
    for (size_t i = 0; i < bases; ++i) {
      const std::string_view base = Bare(timed[i]->candidate.kernel);
      const bool transposed = IsTransposed(timed[i]->candidate.kernel);
      const size_t share = (count - found.size()) / (bases - i);
      Search(problem, share, transposed, names, found,
             [&](const Description<V>& description, size_t wanted, const auto& is_known) {
               return kernels_.Near(*core_, description, base, random, wanted, is_known);
             });
    }
    return found;
  }

  Result<std::unique_ptr<Plan>> Prepare(const Problem& problem,
                                        const Candidate& candidate) const override {
    Result<Description<V>> description = Describe(problem, IsTransposed(candidate.kernel));
    if (!description.ok()) return description.TakeStatus();
    Asking<V> asking(*core_);
    TUNABLEOP_RETURN_IF_ERROR(asking.TakeStatus());
    Result<Kernel<V>> kernel =
        kernels_.Find(*core_, description.value(), Bare(candidate.kernel), candidate.opaque_id);
    if (!kernel.ok()) return kernel.TakeStatus();
    return LtPlan<V>::Make(core_, std::move(description).value(), kernel.value().launch);
  }

 private:
  // Explore looks near the fastest so many.
  static constexpr size_t kBases = 2;

  Result<Description<V>> Describe(const Problem& problem, bool transposed) const {
    Result<ColumnMajorGemm> gemm = ToColumnMajor(problem, transposed, V::kMaxStride);
    if (!gemm.ok()) return gemm.TakeStatus();
    return Description<V>::Make(core_->api, gemm.value());
  }

  // Some product that every card with a library of GEMMs can do.
  bool HasAnyKernel() const {
    Problem problem;
    problem.m = problem.n = problem.k = 128;
    problem.lda = problem.ldb = problem.ldc = 128;
    problem.align_a = problem.align_b = problem.align_c = kMaxAlignmentLog2;
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
      problem.a_type = problem.b_type = problem.c_type = type;
      if (!List(problem, false, 1).empty()) return true;
    }
    return false;
  }

  // What the library proposes. Empty: nothing.
  std::vector<Kernel<V>> List(const Problem& problem, bool transposed, int count) const {
    std::vector<Kernel<V>> kernels;
    Result<Description<V>> description = Describe(problem, transposed);
    if (!description.ok()) return kernels;
    Asking<V> asking(*core_);
    if (!asking.TakeStatus().ok()) return kernels;
    auto results = AskHeuristic(*core_, description.value(), kLtWorkspaceBytes, count);
    if (!results.ok()) return kernels;
    for (const auto& result : results.value()) {
      std::optional<Kernel<V>> kernel = kernels_.Name(*core_, description.value(), result);
      if (kernel) kernels.push_back(std::move(*kernel));
    }
    return kernels;
  }

  static Candidate ToCandidate(const Kernel<V>& kernel, std::string_view suffix) {
    return {std::string(V::kLibrary), kernel.name + std::string(suffix), kernel.opaque_id,
            kernel.launch.workspace_bytes};
  }

  // Adds those whose names are new: names are what a kernel is denied or saved under.
  static void Append(const std::vector<Kernel<V>>& kernels, std::string_view suffix, size_t most,
                     std::vector<Candidate>& candidates) {
    size_t added = 0;
    for (const Kernel<V>& kernel : kernels) {
      if (added == most) return;
      Candidate candidate = ToCandidate(kernel, suffix);
      const bool is_new =
          std::none_of(candidates.begin(), candidates.end(),
                       [&](const Candidate& one) { return one.kernel == candidate.kernel; });
      if (!is_new) continue;
      candidates.push_back(std::move(candidate));
      ++added;
    }
  }

  template <typename Find>
  void Search(const Problem& problem, size_t count, bool transposed,
              std::unordered_set<std::string>& names, std::vector<Candidate>& found,
              const Find& find) const {
    const std::string_view suffix = transposed ? kTransposedSuffix : std::string_view();
    Result<Description<V>> description = Describe(problem, transposed);
    if (!description.ok() || count == 0) return;
    Asking<V> asking(*core_);
    if (!asking.TakeStatus().ok()) return;
    const auto is_known = [&](const std::string& name) {
      return names.contains(name + std::string(suffix));
    };
    for (const Kernel<V>& kernel : find(description.value(), count, is_known)) {
      Candidate candidate = ToCandidate(kernel, suffix);
      if (names.insert(candidate.kernel).second) found.push_back(std::move(candidate));
    }
  }

  const std::shared_ptr<const Core<V>> core_;
  const K kernels_;
  const std::string identity_;
};

}  // namespace tunableop::lt
