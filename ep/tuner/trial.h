// Calls one contender after another: is its answer right, and about how fast is it.
#pragma once

#include "gemm/backend.h"
#include "gemm/executor.h"
#include "gemm/problem.h"
#include "tuner/contenders.h"
#include "tuner/hang_guard.h"
#include "tuner/operand_watch.h"
#include "tuner/sampler.h"
#include "tuner/scratch.h"
#include "tuner/verifier.h"

namespace tunableop {

constexpr double kProbeLimit = 1.5;     // times the default's: slower ones do not race
constexpr double kHopeless = 3.0;       // times the default's: not even checked
constexpr double kMostOfBudget = 0.25;  // a default that takes more leaves no time for rounds

class Trial {
 public:
  // The arguments must outlive this. `scratch` is written to in place of C.
  Trial(const Problem& problem, const Operands& operands, Executor& executor,
        const TunerOptions& options, const OperandWatch& watch, Scratch& scratch, Sampler& sampler,
        Field& field);

  // Runs and checks the answer. `give_up_ms`: slower calls are not checked (the contender is not
  // `right` then). A cheap one may try again: the first call of a kernel is slow for many reasons.
  // False: rejected, or stopped: by the pacer, or because the operands are changing.
  bool RunAndCheck(Contender& contender, double give_up_ms, double& ms);

  // Warms up and takes first samples: two, or up to four until one is as good as `enough_ms`; fewer
  // of a long call, of which the first says enough. False: rejected, or
  // stopped.
  bool Probe(Contender& contender, double first_ms, double enough_ms);

  // A call into the scratch, for the race.
  TimedCall CallOf(const Contender& contender) const;

 private:
  // A first call of `ms` says too little of the kernel: something disturbed it, or it is cheap.
  bool IsWorthAnother(double ms, double give_up_ms) const;
  // Calls one that may hang for the first time, apart. `slow`: so slow that it need not be called
  // again. False: rejected, or stopped.
  bool TryApart(Contender& contender, double give_up_ms, double& ms, bool& slow);
  // True when ok; else the contender is rejected.
  bool Accept(const Contender& contender, const Status& status);

  const TunerOptions& options_;
  const Problem& problem_;
  Executor& executor_;
  const OperandWatch& watch_;
  Scratch& scratch_;
  Sampler& sampler_;
  Field& field_;
  Operands writing_;  // with the scratch for C
  Verifier verifier_;
  HangGuard guard_;
};

}  // namespace tunableop
