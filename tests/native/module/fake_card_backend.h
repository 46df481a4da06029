// A library of make-believe kernels of the fake card: they compute (naively), take prescribed time
// on its clock, in cold and in warm caches, and have prescribed defects. Some are listed, the
// others only found by exploring: they lie on a line, and neighbours are next to each other there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gemm/backend.h"
#include "module/fake_card.h"

namespace tunableop::bindings {

struct FakeCardKernel {
  std::string name;
  double ms = 1.0;        // in cold caches
  double warm_ms = -1.0;  // -1: as in cold ones
  double first_ms = 0.0;  // of the host, at its first launch
  double noise = 0.0;     // sigma of the logarithm
  double spikes = 0.0;    // share of the calls that take ten times as long
  uint64_t seed = 0;      // of the noise
  int64_t after = 0;      // calls before a defect or `later_factor` sets in
  double later_factor = 1.0;
  bool listed = true;
  size_t workspace_bytes = 0;
  bool transposed = false;  // reads Operands::b_transposed
  // "", "one_element", "last_row", "unwritten", "past_end", "before_start", "reads_c", "error",
  // "hangs", "loses_card", "unprepared", "overwrites_a", "low_precision"
  std::string defect;
};

class FakeCardBackend final : public Backend {
 public:
  FakeCardBackend(std::string library, std::vector<FakeCardKernel> kernels,
                  std::shared_ptr<const FakeCard> card, double prepare_ms, bool transposes);
  ~FakeCardBackend() override;

  std::string_view library() const noexcept override { return library_; }
  std::string identity() const override { return "simulated"; }
  std::vector<Candidate> Candidates(const Problem& problem, CandidateScope scope) const override;
  std::vector<Candidate> Explore(const Problem& problem, std::span<const TimedCandidate> known,
                                 uint64_t seed, size_t count) const override;
  Status TransposeB(const Problem& problem, const void* b, void* out,
                    Executor& executor) const override;
  Result<std::unique_ptr<Plan>> Prepare(const Problem& problem,
                                        const Candidate& candidate) const override;

  std::vector<int64_t> calls() const;  // of each kernel so far, in their order

  struct State;

 private:
  const std::string library_;
  const std::shared_ptr<const FakeCard> card_;
  const double prepare_ms_;
  const bool transposes_;
  std::vector<std::shared_ptr<State>> states_;
};

}  // namespace tunableop::bindings
