// A GEMM library that is made ready for a card when it is first asked something, for libraries that
// tell nothing without a handle on the card. Listing the cards of a machine would otherwise make a
// context on each, which takes hundreds of megabytes there, for a process that uses one or none.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/gpu/generation.h"
#include "gemm/backend.h"

namespace tunableop {

// Where the library turns out not to run on the card, it has no candidates. Where it could not be
// made ready for another reason (no memory on the card), it is tried again.
class LateBackend final : public Backend {
 public:
  // `name`: Backend::library of what `make` makes; a literal.
  LateBackend(const char* name, GemmLibrary::Make make, std::shared_ptr<const Device> device,
              VendorLibrary library);

  std::string_view library() const noexcept override { return name_; }
  bool may_hang() const noexcept override;
  std::string identity() const override;
  std::vector<Candidate> Candidates(const Problem& problem, CandidateScope scope) const override;
  std::vector<Candidate> Explore(const Problem& problem, std::span<const TimedCandidate> known,
                                 uint64_t seed, size_t count) const override;
  Result<std::unique_ptr<Plan>> Prepare(const Problem& problem,
                                        const Candidate& candidate) const override;

  // Makes it ready. Empty: it can run; else why not.
  std::string WhyNot() const;

 private:
  const Backend* Made() const noexcept;

  const char* const name_;
  const GemmLibrary::Make make_;
  const std::shared_ptr<const Device> device_;
  const VendorLibrary file_;
  mutable std::atomic<const Backend*> made_ = nullptr;
  mutable std::atomic<bool> never_ = false;  // it cannot run here
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Backend> owned_;
  mutable std::string why_not_;
};

}  // namespace tunableop
