#include "backends/gpu/late_backend.h"

#include <new>
#include <utility>

namespace tunableop {

LateBackend::LateBackend(const char* name, GemmLibrary::Make make,
                         std::shared_ptr<const Device> device, VendorLibrary library)
    : name_(name), make_(make), device_(std::move(device)), file_(std::move(library)) {}

const Backend* LateBackend::Made() const noexcept {
  const Backend* made = made_.load(std::memory_order_acquire);
  if (made != nullptr || never_.load(std::memory_order_acquire)) return made;
  try {
    const std::lock_guard lock(mutex_);
    if (owned_ != nullptr || never_.load(std::memory_order_relaxed)) return owned_.get();
    Result<std::shared_ptr<const Backend>> result = make_(device_, file_);
    if (result.ok()) {
      owned_ = std::move(result).value();
      why_not_.clear();
      made_.store(owned_.get(), std::memory_order_release);
      return owned_.get();
    }
    why_not_ = std::string(name_) + ": " + std::string(result.status().message());
    const StatusCode code = result.status().code();
    if (code != StatusCode::kOutOfMemory && code != StatusCode::kInternal) {
      never_.store(true, std::memory_order_release);
    }
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): another time
  }
  return nullptr;
}

std::string LateBackend::WhyNot() const {
  if (Made() != nullptr) return {};
  const std::lock_guard lock(mutex_);
  return why_not_.empty() ? std::string(name_) + ": no memory" : why_not_;
}

bool LateBackend::may_hang() const noexcept {
  const Backend* made = Made();
  return made != nullptr && made->may_hang();
}

std::string LateBackend::identity() const {
  const Backend* made = Made();
  return made != nullptr ? made->identity() : "unusable";
}

std::vector<Candidate> LateBackend::Candidates(const Problem& problem, CandidateScope scope) const {
  const Backend* made = Made();
  return made != nullptr ? made->Candidates(problem, scope) : std::vector<Candidate>();
}

std::vector<Candidate> LateBackend::Explore(const Problem& problem,
                                            std::span<const TimedCandidate> known, uint64_t seed,
                                            size_t count) const {
  const Backend* made = Made();
  return made != nullptr ? made->Explore(problem, known, seed, count) : std::vector<Candidate>();
}

Result<std::unique_ptr<Plan>> LateBackend::Prepare(const Problem& problem,
                                                   const Candidate& candidate) const {
  const Backend* made = Made();
  if (made == nullptr) return Status(StatusCode::kNotSupported, WhyNot());
  return made->Prepare(problem, candidate);
}

}  // namespace tunableop
