// One line of what tuning learned, as it is kept in files and handed to users. No pointers, no
// plans.
#pragma once

#include <cstdint>
#include <string>

#include "gemm/backend.h"
#include "gemm/problem.h"

namespace tunableop {

struct Record {
  Problem problem;
  Candidate winner;
  std::string library_identity;  // Backend::identity() of the winner's library when it was measured
  double winner_ms = 0.0;        // medians; 0: not measured
  double default_ms = 0.0;
  std::string default_kernel;  // Candidate::FullName() of the default it raced against
  double error = 0.0;          // TuneResult::error
  int tried = 0;
  double budget_ms = 0.0;      // TuneResult::budget_ms
  double stock_ms = 0.0;       // of the stock provider's kernel, raced beside; 0: not measured
  bool stock_wins = false;     // TuneResult::spectator_wins
  bool cold_b = false;         // TunerOptions::cold_b
  double temperature_c = 0.0;  // when measured; 0: not known
  double clock_mhz = 0.0;      // the same
  int confirmations = 0;       // MeasuredState::confirmations
  uint64_t uses = 0;           // calls that ran it, in all sessions that this one knows of
  // An entry of its own kind: the choice serves every m from m_low to m_high (problem.m is the one
  // that was measured). 0, 0: problem.m alone.
  int64_t m_low = 0;
  int64_t m_high = 0;
  int64_t measured_at = 0;  // seconds since 1970-01-01 UTC
};

}  // namespace tunableop
