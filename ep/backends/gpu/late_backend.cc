#include "backends/gpu/late_backend.h"

#include <utility>

namespace tunableop {

LateBackend::LateBackend(const char* name, GemmLibrary::Make make,
                         std::shared_ptr<const Device> device, VendorLibrary library)
    : name_(name), make_(make), device_(std::move(device)), file_(std::move(library)) {}

const Backend* LateBackend::Made() const {
  std::call_once(once_, [this] {
    Result<std::shared_ptr<const Backend>> made = make_(device_, file_);
    if (made.ok()) {
      made_ = std::move(made).value();
    } else {
      why_not_ = std::string(name_) + ": " + std::string(made.status().message());
    }
  });
  return made_.get();
}

const std::string& LateBackend::WhyNot() const {
  Made();
  return why_not_;
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
  if (made == nullptr) return Status(StatusCode::kNotSupported, why_not_);
  return made->Prepare(problem, candidate);
}

}  // namespace tunableop
