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
  double budget_ms = 0.0;   // TuneResult::budget_ms
  int64_t measured_at = 0;  // seconds since 1970-01-01 UTC
};

}  // namespace tunableop
