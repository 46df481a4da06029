#include "backends/blas/rocblas_backend.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/blas/rocblas_gemm.h"
#include "backends/blas/rocblas_handles.h"
#include "backends/blas/rocblas_library.h"
#include "backends/lt/lt_backend.h"
#include "backends/lt/random.h"
#include "gemm/device_queue.h"

namespace tunableop {
namespace {

using blas::KernelsPresent;
using blas::QueueHandles;
using blas::RocblasGemm;
using blas::RocblasHandle;
using blas::RocblasLibrary;
using blas::ToStatus;

constexpr std::string_view kRocblas = "rocblas";
constexpr std::string_view kDefault = "default";
constexpr std::string_view kSolution = "solution/";
// Of CandidateScope::kDefault, beside the default. The list is not ranked: these are spread over
// it, since neighbours are of one family of kernels.
constexpr size_t kFew = 7;
// What queues have. Solutions that need more are not listed.
constexpr size_t kWorkspaceBytes = kLtWorkspaceBytes;

bool IsSet(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

Candidate Default() { return Candidate{std::string(kRocblas), std::string(kDefault), -1, 0}; }

Candidate Solution(int32_t index) {
  return Candidate{std::string(kRocblas), std::string(kSolution) + std::to_string(index), index, 0};
}

// 0: the default. Nothing: no such kernel.
std::optional<int32_t> IndexOf(const Candidate& candidate) {
  if (candidate.library != kRocblas) return std::nullopt;
  std::string_view kernel = candidate.kernel;
  if (kernel == kDefault) return 0;
  if (!kernel.starts_with(kSolution)) return std::nullopt;
  kernel.remove_prefix(kSolution.size());
  int32_t index = 0;
  const auto parsed = std::from_chars(kernel.data(), kernel.data() + kernel.size(), index);
  if (parsed.ec != std::errc() || parsed.ptr != kernel.data() + kernel.size()) return std::nullopt;
  if (index == 0 || index == -1) return std::nullopt;  // other names of the default
  return index;
}

class RocblasPlan final : public Plan {
 public:
  RocblasPlan(const RocblasGemm& gemm, int32_t solution,
              std::shared_ptr<const RocblasLibrary> library) noexcept
      : gemm_(gemm), solution_(solution), library_(std::move(library)) {}

  Status Run(const Operands& operands, Executor& executor) const noexcept override {
    if (gemm_.empty()) return Status::Ok();
    const DeviceQueue* queue = executor.queue();
    if (queue == nullptr) {
      return {StatusCode::kInvalidArgument, "rocBLAS runs on a card, and this executor has none"};
    }
    if (queue->workspace_bytes() == 0 && queue->device().IsCapturing(queue->stream())) {
      return {StatusCode::kNotSupported,
              "rocBLAS may allocate on a stream without a workspace, which no graph can capture"};
    }
    const CurrentAside current(queue->device());  // a kernel's code is loaded at its first launch
    QueueHandles* handles = QueueHandles::Of(*queue, library_);
    if (handles == nullptr) return {StatusCode::kOutOfMemory, "no memory for a rocBLAS handle"};
    const Result<QueueHandles::Lease> lease = handles->Take(*queue);
    if (!lease.ok()) return {lease.status().code(), std::string(lease.status().message())};
    const std::unique_lock turn = queue->Turn();  // it does not say who uses the workspace
    return ToStatus("rocblas_gemm_ex",
                    gemm_.Run(*library_, lease.value().handle(), operands, solution_));
  }

 private:
  const RocblasGemm gemm_;
  const int32_t solution_;
  const std::shared_ptr<const RocblasLibrary> library_;
};

class RocblasBackend final : public Backend {
 public:
  RocblasBackend(std::shared_ptr<const Device> device,
                 std::shared_ptr<const RocblasLibrary> library, std::string identity)
      : device_(std::move(device)),
        library_(std::move(library)),
        identity_(std::move(identity)),
        can_check_(library_->gemm_ex_get_solutions != nullptr && !IsSet("ROCBLAS_CHECK_NUMERICS")) {
  }

  std::string_view library() const noexcept override { return kRocblas; }
  std::string identity() const override { return identity_; }

  std::vector<Candidate> Candidates(const Problem& problem, CandidateScope scope) const override {
    const Result<RocblasGemm> gemm = RocblasGemm::Create(problem);
    if (!gemm.ok()) return {};
    std::vector<Candidate> candidates = {Default()};
    const std::vector<int32_t> solutions = Solutions(problem, gemm.value());
    const size_t count =
        scope == CandidateScope::kAll ? solutions.size() : std::min(kFew, solutions.size());
    for (size_t i = 0; i < count; ++i) {
      candidates.push_back(Solution(solutions[i * solutions.size() / count]));
    }
    return candidates;
  }

  std::vector<Candidate> Explore(const Problem& problem, std::span<const TimedCandidate> known,
                                 uint64_t seed, size_t count) const override;

  Result<std::unique_ptr<Plan>> Prepare(const Problem& problem,
                                        const Candidate& candidate) const override {
    const std::optional<int32_t> index = IndexOf(candidate);
    if (!index) {
      return Status(StatusCode::kNotFound, "no rocBLAS kernel: " + candidate.FullName());
    }
    Result<RocblasGemm> gemm = RocblasGemm::Create(problem);
    if (!gemm.ok()) return gemm.TakeStatus();
    if (*index != 0 && !gemm.value().empty()) {
      if (library_->gemm_ex_get_solutions == nullptr) {
        return Status(StatusCode::kNotFound,
                      "rocBLAS " + library_->version + " has no list of solutions");
      }
      TUNABLEOP_RETURN_IF_ERROR(Check(gemm.value(), *index, candidate));
    }
    return std::unique_ptr<Plan>(std::make_unique<RocblasPlan>(gemm.value(), *index, library_));
  }

 private:
  // The handle that asks, made at the first call. Precondition: mutex_ is held.
  Result<void*> Asking() const {
    if (asking_.get() == nullptr) {
      Result<RocblasHandle> made = RocblasHandle::Create(device_, library_);
      if (!made.ok()) return made.TakeStatus();
      // rocBLAS lists what fits the workspace of the handle that asks. Nothing is run with this
      // one, so that there need be no such memory; what it was made with is given back.
      TUNABLEOP_RETURN_IF_ERROR(ToStatus(
          "rocblas_set_workspace",
          library_->set_workspace(made.value().get(), RocblasGemm::Unread(), kWorkspaceBytes)));
      asking_ = std::move(made.value());
    }
    return asking_.get();
  }

  // Empty: none, or the library does not say.
  std::vector<int32_t> Solutions(const Problem& problem, const RocblasGemm& gemm) const {
    if (library_->gemm_ex_get_solutions == nullptr || gemm.empty()) return {};
    const std::lock_guard lock(mutex_);
    if (listed_ == problem) return solutions_;
    const CurrentAside current(*device_);
    const Result<void*> handle = Asking();
    if (!handle.ok()) return {};
    std::vector<int32_t> solutions;
    if (!gemm.Solutions(*library_, handle.value(), solutions).ok()) return {};
    listed_ = problem;
    solutions_ = solutions;
    return solutions;
  }

  Status Check(const RocblasGemm& gemm, int32_t index, const Candidate& candidate) const {
    if (!can_check_) return Status::Ok();
    const std::lock_guard lock(mutex_);
    const CurrentAside current(*device_);
    const Result<void*> handle = Asking();
    if (!handle.ok()) return {handle.status().code(), std::string(handle.status().message())};
    const Status status = ToStatus("rocblas_gemm_ex", gemm.Check(*library_, handle.value(), index));
    if (status.ok()) return Status::Ok();
    return {status.code(), candidate.FullName() + ": " + std::string(status.message())};
  }

  const std::shared_ptr<const Device> device_;
  const std::shared_ptr<const RocblasLibrary> library_;
  const std::string identity_;
  // With ROCBLAS_CHECK_NUMERICS rocBLAS reads the operands of a call before it looks at the
  // solution, and there are none here.
  const bool can_check_;
  mutable std::mutex mutex_;  // never held while a kernel of a session is queued
  mutable RocblasHandle asking_;
  // The list asked for last: a tuner asks for one problem again and again.
  mutable std::optional<Problem> listed_;
  mutable std::vector<int32_t> solutions_;
};

// Near the fastest means near in the list: an index says nothing by itself, but solutions of one
// family mostly follow each other. As that is only mostly so, every second one is drawn at random.
std::vector<Candidate> RocblasBackend::Explore(const Problem& problem,
                                               std::span<const TimedCandidate> known, uint64_t seed,
                                               size_t count) const {
  const Result<RocblasGemm> gemm = RocblasGemm::Create(problem);
  if (!gemm.ok() || count == 0) return {};
  std::vector<int32_t> rest = Solutions(problem, gemm.value());
  std::optional<int32_t> fastest;
  double best_ms = std::numeric_limits<double>::infinity();
  std::vector<int32_t> seen;
  for (const TimedCandidate& one : known) {
    const std::optional<int32_t> index = IndexOf(one.candidate);
    if (!index || *index == 0) continue;
    seen.push_back(*index);
    if (one.ms > 0.0 && one.ms < best_ms) {
      best_ms = one.ms;
      fastest = index;
    }
  }
  std::sort(seen.begin(), seen.end());
  std::erase_if(rest,
                [&](int32_t index) { return std::binary_search(seen.begin(), seen.end(), index); });
  lt::Random random(seed);
  std::vector<Candidate> drawn;
  const auto take = [&](size_t position) {
    drawn.push_back(Solution(rest[position]));
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(position));
  };
  while (drawn.size() < count && !rest.empty()) {
    if (!fastest || drawn.size() % 2 == 1) {
      take(random.Below(rest.size()));
      continue;
    }
    const auto above = std::lower_bound(rest.begin(), rest.end(), *fastest);
    auto position = static_cast<size_t>(above - rest.begin());
    // Where the fastest would stand in what is left.
    const bool below_is_nearer =
        position == rest.size() ||
        (position > 0 && int64_t{*fastest} - rest[position - 1] <= int64_t{*above} - *fastest);
    take(below_is_nearer ? position - 1 : position);
  }
  return drawn;
}

// What decides which kernels an index, and the default, stand for.
std::string Identity(const Device& device, const RocblasLibrary& library) {
  std::string identity = library.version + "+" + device.info().arch;
  const char* choice = std::getenv("ROCBLAS_USE_HIPBLASLT");
  if (choice != nullptr && *choice != '\0') identity += std::string("+hipblaslt=") + choice;
  return identity;
}

}  // namespace

Result<std::shared_ptr<const Backend>> MakeRocblasBackend(std::shared_ptr<const Device> device,
                                                          const VendorLibrary& library) {
  if (device->backend() != "hip") {
    return Status(StatusCode::kInvalidArgument, "rocBLAS does not run on " + device->info().name);
  }
  Result<RocblasLibrary> bound = blas::BindRocblas(library);
  if (!bound.ok()) return bound.TakeStatus();
  TUNABLEOP_RETURN_IF_ERROR(KernelsPresent(library.path(), device->info().arch));
  auto rocblas = std::make_shared<const RocblasLibrary>(std::move(bound.value()));
  std::string identity = Identity(*device, *rocblas);
  return std::shared_ptr<const Backend>(
      std::make_shared<RocblasBackend>(std::move(device), std::move(rocblas), std::move(identity)));
}

}  // namespace tunableop
