// A library of make-believe kernels for tests of the tuner: they compute (naively, fp32), take a
// prescribed time, with prescribed noise, and have prescribed defects.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gemm/backend.h"

namespace tunableop::bindings {

struct SimulatedKernel {
  std::string name;
  double ms = 1.0;            // of one call
  double noise = 0.0;         // sigma of the logarithm: 0.3 is a bad neighbour
  double spikes = 0.0;        // share of the calls that take ten times as long
  uint64_t seed = 0;          // of the noise
  int64_t after = 0;          // calls before a defect or `later_factor` sets in
  double later_factor = 1.0;  // of the time, from then on
  // "", "one_element", "last_row", "last_column", "unwritten", "gap", "past_end",
  // "nan_if_negative", "error", "ignores_alpha", "ignores_beta", "ignores_bias", "low_precision",
  // "reads_poison", "unprepared" (Prepare fails), "some_rows" (of `wrong_rows`), "overwrites_a" (as
  // if another thread did), "hangs" (until HangGate::Open).
  std::string defect;
  int64_t wrong_rows = 1;  // at random places
};

// Where calls that hang wait; one for the process.
class HangGate {
 public:
  static void Wait();
  static void Open();  // lets all go, and waits until they have gone
  static int64_t waiting() noexcept;
};

// Time as simulated kernels see it.
struct VirtualClock {
  std::atomic<int64_t> ns{0};
  std::atomic<double> load{1.0};  // times as long as it should a call takes
};

class SimulatedBackend final : public Backend {
 public:
  // Kernels only advance the clock of this backend when `virtual_time`, else they spin.
  SimulatedBackend(std::string library, std::vector<SimulatedKernel> kernels, bool virtual_time,
                   bool may_hang = false);
  ~SimulatedBackend() override;

  std::string_view library() const noexcept override { return library_; }
  bool may_hang() const noexcept override { return may_hang_; }
  std::string identity() const override { return "simulated"; }
  std::vector<Candidate> Candidates(const Problem& problem, CandidateScope scope) const override;
  Result<std::unique_ptr<Plan>> Prepare(const Problem& problem,
                                        const Candidate& candidate) const override;

  // What the kernels think the time is; null: real time.
  VirtualClock* clock() const noexcept { return clock_.get(); }
  // Calls of each kernel so far, in their order.
  std::vector<int64_t> calls() const;

  struct State;

 private:
  std::string library_;
  std::vector<std::shared_ptr<State>> states_;
  std::shared_ptr<VirtualClock> clock_;
  bool may_hang_ = false;
};

}  // namespace tunableop::bindings
