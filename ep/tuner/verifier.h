// Decides whether what a kernel left in the scratch is right.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gemm/backend.h"
#include "gemm/executor.h"
#include "gemm/problem.h"
#include "tuner/reference.h"
#include "tuner/scratch.h"
#include "tuner/tolerance.h"

namespace tunableop {

class Verifier {
 public:
  // `budget`: multiplications for the reference. `spare_bytes`: memory for a copy of the first
  // right answer; where it is too little, only the reference's sample is compared. The arguments
  // must outlive this.
  Verifier(const Problem& problem, const Operands& operands, Executor& executor, double budget,
           size_t spare_bytes)
      : problem_(problem),
        operands_(operands),
        executor_(executor),
        budget_(budget),
        spare_bytes_(spare_bytes),
        tolerance_(problem) {}

  struct Verdict {
    bool right = true;
    double error = 0.0;  // relative to the tolerance; <= 1 is right
    std::string reason;  // when wrong
  };

  // Makes the scratch ready for a run that will be checked.
  void Prepare(Scratch& scratch) const;
  // Judges one run after Prepare: no element left unwritten, nothing written elsewhere, the sampled
  // rows equal to the exact result, all elements equal to the first kernel's that was right (`name`
  // is kept for messages). Leaves C poisoned. Throws bad_alloc.
  Verdict Check(Scratch& scratch, const std::string& name);

 private:
  Verdict CompareWithTrusted(const Scratch& scratch);
  // True when a row is so close that its bias, beta and magnitude need not be looked at. fp32 only.
  bool RowIsClose(const float* got, const float* trusted, double row_factor,
                  const double* columns) const noexcept;
  std::string Describe(const Place& place) const;

  const Problem& problem_;
  const Operands& operands_;
  Executor& executor_;
  const double budget_;
  const size_t spare_bytes_;
  const Tolerance tolerance_;
  std::optional<Reference> reference_;  // made at the first check
  Reference::Norms norms_;              // made at the second
  std::vector<char> trusted_;           // [batch][m][n]
  std::string trusted_name_;
};

}  // namespace tunableop
