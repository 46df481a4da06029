// One measurement on a card, from its first look at the operands to its result: the stages of
// TuneOnDevice().
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gemm/backend.h"
#include "gemm/device_queue.h"
#include "gemm/executor.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "tuner/contenders.h"
#include "tuner/device_answers.h"
#include "tuner/device_stream.h"
#include "tuner/device_timer.h"
#include "tuner/journal_scope.h"
#include "tuner/race.h"
#include "tuner/sampler.h"
#include "tuner/tuner.h"

namespace tunableop {

class DeviceTuning {
 public:
  // The arguments must outlive this.
  DeviceTuning(const Problem& problem, const Operands& operands, const DeviceQueue& session,
               Executor& host, const TunerOptions& options);

  // To be called once.
  Result<TuneResult> Run(std::span<const std::shared_ptr<const Backend>> backends);

 private:
  using Backends = std::span<const std::shared_ptr<const Backend>>;

  double SpentMs() const { return static_cast<double>(sampler_.Now() - start_) * 1e-6; }
  int64_t DeadlineAt(double share) const {
    return start_ +
           static_cast<int64_t>(share * std::clamp(options_.max_tuning_ms, 0.0, 1e9) * 1e6);
  }
  bool Late(double share) const {
    return sampler_.OutOfTime() || SpentMs() > share * options_.max_tuning_ms;
  }
  std::vector<Contender>& contenders() { return field_.contenders; }
  // Nobody can be tried any more.
  bool Ended() const { return !fatal_.ok() || sampler_.stopped(); }

  // device_tuning.cc: what is needed for measuring, and who is to be beaten.
  Result<TuneResult> RunToEnd(Backends backends);
  std::optional<std::string> WhyUnmeasured() const;
  Status SetUp();
  // device_transposed.cc: B once more, in writing_. Why not; empty: it is there.
  std::string MakeTransposedB();
  std::string TransposeOnHost(void* out, size_t bytes);
  // Tells it of the contenders so far.
  void KeepJournal();
  Result<TuneResult> Measure(Backends backends);
  // The first that is right, in the order: incumbent, default, the rest. kNoLane: nobody.
  size_t FindBase();

  // device_search.cc: how fast the others are, before anything else is known of them.
  void ProbeListed();
  void Explore(Backends backends);
  // Those of `library`, with what they took, or all with 0.
  std::vector<TimedCandidate> Known(std::string_view library, bool timed) const;
  // Prepares and probes them until that share of the budget is spent; false: it is.
  bool ProbeMore(const std::shared_ptr<const Backend>& backend,
                 const std::vector<Candidate>& candidates, double share);
  // The best probe; HUGE_VAL: there is none.
  double BestOf(std::string_view library) const;
  // First call and samples; slower than `limit_ms`: out of the race, not rejected. False: rejected,
  // or stopped.
  bool Probe(Contender& contender, double limit_ms);
  // Of a call of it. True when ok; else the contender is rejected, or everything ends.
  bool Accept(const Contender& contender, const Status& status);
  // Of anything else that the card did for us: true when ok, else everything ends.
  bool Expect(Status status);
  // Why it cannot be measured here, before it is called; empty: it can.
  std::string WhyNot(const Contender& contender);
  bool RunAndCheck(Contender& contender, double& ms);
  // A call into the scratch.
  TimedCall CallOf(const Contender& contender, Caches caches);
  TimedCall CallOf(const Contender& contender, Caches caches, double expected_ms);
  TimedCall FirstCallOf(const Contender& contender);
  DeviceTimer::Call QueueOf(const Contender& contender) const;

  // device_election.cc: those that are right and fast enough, against each other.
  std::vector<size_t> ChooseFinalists();
  Result<TuneResult> HoldRace(std::vector<size_t> racing);
  void RejectFailed(const std::vector<size_t>& racing, std::span<const Lane> lanes);
  // As many lanes as there is time for some rounds of.
  void FitToTime(std::vector<size_t>& racing) const;

  // device_caches.cc: makes `election` one that holds in the other state of the caches too.
  void CheckOtherCaches(const std::vector<size_t>& racing, Election& election);
  // Why not; empty: it does.
  std::string LosesInOtherCaches(const Contender& winner, const Contender& base);
  void CheckWinner(const std::vector<size_t>& racing, Election& election);
  size_t FirstRight(const std::vector<size_t>& racing) const;

  // device_result.cc
  Result<TuneResult> Keep(const Contender& contender, std::string why);
  TuneResult Finish(const Contender& winner, double winner_ms, std::string why);
  TuneResult Unmeasured(std::string why);
  // Those that were only timed may be all that is left.
  Result<TuneResult> NobodyIsRight();
  // Only a kernel that stands beside a right one is known to be wrong.
  void DenyTheWrong();

  const Problem& problem_;
  const Operands& operands_;
  const DeviceQueue& session_;
  Executor& host_;
  const TunerOptions& options_;
  Sampler sampler_;
  const int64_t start_;
  Field field_;
  size_t base_ = 0;  // who is to be beaten, and its median probe
  double base_ms_ = 0.0;
  bool unraced_ = false;            // there was no time to race anybody
  bool changed_ = false;            // the operands, while they were measured
  Status fatal_;                    // of the card, which ends everything
  std::vector<Candidate> refused_;  // found by exploring, and not prepared
  // Why there is no transposed B; empty: there is; nothing: nobody has asked.
  std::optional<std::string> no_transposed_b_;
  double sample_ms_ = 0.0;  // wall clock of a sample of the base

  std::unique_ptr<MeasuringStream> stream_;
  std::unique_ptr<DeviceAnswers> answers_;
  std::unique_ptr<DeviceTimer> timer_;
  Caches caches_ = Caches::kWarm;  // as they are in the race
  Operands writing_;               // with the scratch for C
  std::optional<JournalScope> journal_;
};

}  // namespace tunableop
