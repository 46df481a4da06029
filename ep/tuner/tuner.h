// Measure, verify, choose: which kernel runs a problem best on these operands, on this machine,
// now.
//
// Rules (docs/tuning.md): the default kernel is always in the race; rounds are interleaved; the
// figure of a candidate is its median; a switch needs min_gain over the default; a winner must have
// given the right answer; the time budget includes probes and verification.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gemm/backend.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "gemm/trial_journal.h"
#include "tuner/clock.h"
#include "tuner/pacer.h"
#include "tuner/perf_counters.h"

namespace tunableop {

struct TunerOptions {
  int warmup_iter = 5;     // untimed calls of each candidate before its first timed one, at most
  double min_gain = 0.03;  // share of the default's time that a winner must save
  double max_tuning_ms = 100.0;  // wall clock for one problem, overrun by at most one call
  bool verify = true;
  CandidateScope candidates = CandidateScope::kDefault;
  size_t max_scratch_bytes = size_t{256} << 20;  // ceiling for the copies of C that measuring makes
  bool remember_wrong = true;  // a wrong kernel is denied for the whole process (deny_list.h)
  NowFn now;                   // empty: the steady clock. For tests.

  // The kernel that serves now, when that is not the default: the one to beat by min_gain, so that
  // measuring again does not flap. The default races too. One that is not among the candidates is
  // prepared as well.
  std::optional<Candidate> incumbent;
  // A library whose first candidate runs in every round but cannot be elected: the stock provider's
  // kernel, to know where a node is better left to it.
  std::shared_ptr<const Backend> spectator;
  // B is not in the cache when the kernel is really called (the weights of other layers have pushed
  // it out): it is flushed before each timed call.
  bool cold_b = false;
  // The first call of a kernel that may hang (Backend::may_hang) is abandoned after this. It costs
  // none of max_tuning_ms, which is overrun by this much for each candidate that hangs (four in a
  // process at most).
  double hang_ms = 2000.0;
  bool count_hardware = false;      // fills TuneResult::counters
  TrialJournal* journal = nullptr;  // may be null
  Pacer* pacer = nullptr;           // may be null
};

// Why a candidate may not win: it could not be prepared, returned an error, or was wrong. Being
// slow is no reason to be here.
struct Rejection {
  Candidate candidate;
  std::string reason;  // "wrong answer: row 3, column 7: got 1.5, expected 1.25 (tolerance 1e-6)"
};

struct Sample {
  Candidate candidate;
  // In order; each is the mean over the calls of one round (1 call, or as many as 20 us hold). Of a
  // candidate that was too slow to race: its probes.
  std::vector<double> milliseconds;
};

struct TuneResult {
  Candidate winner;
  std::shared_ptr<const Plan> plan;  // of the winner, ready to run
  double winner_ms = 0.0;            // medians; 0 when nothing was measured (budget too small)
  double default_ms = 0.0;
  Candidate default_candidate;
  double error =
      0.0;        // largest |got - reference| / tolerance scale over what was checked; < 1 is right
  int tried = 0;  // candidates that were timed, the default included
  double spent_ms = 0.0;
  // The max_tuning_ms that left no time for a race, so that what served was kept: a larger one may
  // find better. Next to nothing where any will do: the operands changed while measuring. 0: the
  // race was held, or there was nothing to race.
  double budget_ms = 0.0;
  std::string why;  // one line for a person: "12.3 % faster than the default"
  std::vector<Rejection> rejected;
  std::vector<Sample> samples;
  // Of the spectator; 0 when it did not run, and `spectator_note` says why, if there was one.
  double spectator_ms = 0.0;
  bool spectator_wins = false;  // faster than the winner by min_gain and beyond chance
  std::string spectator_note;
  // B was really flushed before each timed call: as cold_b asked, where the processor can.
  bool cold = false;
  double clock_mhz = 0.0;  // of the core, by a chain of dependent additions; 0: not known
  PerfReading counters;    // of the winner
};

// Measures `problem` on `operands` with the candidates of `backends` (the first backend that has
// any gives the default). Operands are host memory. Never writes to operands.c: measuring goes to a
// scratch copy, which is freed before returning. Thread-safe, but two measurements at once disturb
// each other: the caller serialises.
//
// Any trouble only narrows the race; when nothing can be measured, the default wins unmeasured (and
// unverified) and `why` says so. A default that is wrong or fails loses to the fastest that is
// right, whatever its gain; only the search for one may overrun the budget. Errors:
// kNotSupported: no backend can run the problem; kInvalidArgument: Validate() or the operands'
// pointers are at fault; kInternal: every kernel is wrong or fails; kOutOfMemory.
Result<TuneResult> Tune(const Problem& problem, const Operands& operands, Executor& executor,
                        std::span<const std::shared_ptr<const Backend>> backends,
                        const TunerOptions& options);

}  // namespace tunableop
