// One measurement from its first look at the operands to its result: the stages of Tune().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gemm/backend.h"
#include "gemm/executor.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "tuner/contenders.h"
#include "tuner/operand_watch.h"
#include "tuner/race.h"
#include "tuner/sampler.h"
#include "tuner/scratch.h"
#include "tuner/trial.h"
#include "tuner/tuner.h"

namespace tunableop {

class Tuning {
 public:
  // The arguments must outlive this.
  Tuning(const Problem& problem, const Operands& operands, Executor& executor,
         const TunerOptions& options);

  // To be called once.
  Result<TuneResult> Run(std::span<const std::shared_ptr<const Backend>> backends);

 private:
  double SpentMs() const {
    return static_cast<double>(sampler_.Now() - start_) * 1e-6;
  }  // of the budget
  std::vector<Contender>& contenders() { return field_.contenders; }

  Result<TuneResult> RunToEnd(std::span<const std::shared_ptr<const Backend>> backends);

  // tuning.cc: why nothing can or need be measured; and the trials, each candidate on its own.
  std::optional<std::string> WhyUnmeasured();
  // Who must be tried comes first: the incumbent, the default, the spectator.
  std::vector<size_t> TrialOrder();
  void PrepareMachine();
  Result<TuneResult> Measure();
  void TrySpectator(Contender& spectator, double base_ms);
  // One call of it fills too much of the budget for a race.
  Result<TuneResult> KeepUnraced(Contender& contender, double ms);
  // The hopelessly slow were not checked, and one of them may be all that is left.
  Result<TuneResult> NobodyIsRight();

  // tuning_race.cc: those that are right and fast enough, against each other. `racing`: contenders.
  Result<TuneResult> HoldRace(std::vector<size_t> racing);
  // The incumbent, the default and the best others, as many as there is time for some rounds of.
  void ChooseLanes(std::vector<size_t>& racing) const;
  // Position in `racing` of the first that nothing is known against: the incumbent, or the best.
  size_t FirstRight(const std::vector<size_t>& racing) const;
  // Takes failures in the race into the field.
  void RejectFailed(const std::vector<size_t>& racing, std::span<const Lane> lanes);
  // The winner's position in `racing`: whoever was wrong in a last call is not. kNoLane: nobody is
  // right.
  void CheckWinner(const std::vector<size_t>& racing, Election& election);
  void JudgeSpectator(const Contender& winner);

  // tuning_result.cc
  Result<TuneResult> Keep(const Contender& contender, std::string why);
  Result<TuneResult> KeepForWantOfTime(const Contender& contender, std::string why);
  TuneResult Finish(const Contender& winner, double winner_ms, std::string why);
  // Hardware counters around some more calls of the winner, when asked for and there is time.
  PerfReading CountHardware(const Contender& winner, double ms);
  // Nothing that was seen counts: what is served without a measurement.
  TuneResult Unmeasured(std::string why);
  // Only a kernel that stands beside a right one is known to be wrong: if all are, the fault may be
  // ours, and denying everything would leave the process with nothing.
  void DenyTheWrong() const;

  const Problem& problem_;
  const Operands& operands_;
  Executor& executor_;
  const TunerOptions& options_;
  Sampler sampler_;
  const int64_t start_;
  Field field_;
  bool unraced_ = false;  // there was no time to race anybody
  bool spectator_wins_ = false;
  bool cold_ = false;  // B is flushed before each call
  std::optional<Scratch> scratch_;
  std::optional<OperandWatch> watch_;
  std::optional<Trial> trial_;
};

}  // namespace tunableop
