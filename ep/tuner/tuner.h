// Measure, verify, choose: which kernel runs a problem best on these operands, on this machine,
// now.
//
// Rules (DESIGN section 6): the default kernel is always in the race; rounds are interleaved; the
// figure of a candidate is its median; a switch needs min_gain over the default; a winner must have
// given the right answer; the time budget includes probes and verification.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gemm/backend.h"
#include "gemm/problem.h"
#include "gemm/status.h"

namespace tunableop {

struct TunerOptions {
  int warmup_iter = 5;     // untimed calls of each candidate before its first timed one, at most
  double min_gain = 0.03;  // share of the default's time that a winner must save
  double max_tuning_ms = 100.0;  // wall clock for one problem, overrun by at most one call
  bool verify = true;
  CandidateScope candidates = CandidateScope::kDefault;
  size_t max_scratch_bytes = size_t{256}
                             << 20;  // ceiling for the copy of C that measuring writes to
};

// Why a candidate lost its place in the race.
struct Rejection {
  Candidate candidate;
  std::string reason;  // "wrong answer: row 3, column 7: got 1.5, expected 1.25 (tolerance 1e-6)"
};

struct Sample {
  Candidate candidate;
  std::vector<double> milliseconds;  // every timed call, in order
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
  std::string why;  // one line for a person: "12.3 % faster than the default"
  std::vector<Rejection> rejected;
  std::vector<Sample> samples;
};

// Measures `problem` on `operands` with the candidates of `backends` (the first backend that has
// any gives the default). Never writes to operands.c: measuring goes to a scratch copy, which is
// freed before returning. Thread-safe, but two measurements at once disturb each other: the caller
// serialises. kNotSupported: no backend can run the problem. Any other trouble only narrows the
// race; when nothing can be measured, the default wins unmeasured and `why` says so.
Result<TuneResult> Tune(const Problem& problem, const Operands& operands, Executor& executor,
                        std::span<const std::shared_ptr<const Backend>> backends,
                        const TunerOptions& options);

}  // namespace tunableop
