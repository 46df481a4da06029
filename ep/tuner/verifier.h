// Decides whether what a kernel left in the scratch is right.
//
// What may be missed. Of a problem too large to be computed whole, the reference has r rows (1e5
// multiplications for each ms of the budget pay for them, 16e6 at most): the first and the last of
// the first and the last batch item, and r - 4 drawn at random with replacement. A kernel that is
// wrong in a share p of the other rows passes with probability (1 - p)^(r - 4): 5 % when
// p = 3 / (r - 4). Where even columns are sampled (n > 256 and four rows too dear), the same holds
// for its blocks of columns, on top. With 100 ms and k = n = 1024, r is 9, which catches kernels
// that are wrong everywhere or at the edges, and not much else.
//
// That is why all elements are also compared with those of the first kernel that passed, where
// memory allows a copy of its answer (spare_bytes). Missed are then only what two kernels have in
// common, and errors below twice the tolerance, taken with Cauchy and Schwarz's bound. Of that
// first kernel itself, the default, no more than the rows is known when it is the only one.
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
  // An element that is as far off as any, relative to its tolerance.
  struct Worst {
    double error = 0.0;
    int64_t row = 0;  // of all batch items
    int64_t column = 0;
    double got = 0.0;
    double trusted = 0.0;
    double tolerance = 0.0;
  };

  Verdict CompareWithTrusted(const Scratch& scratch);
  void CompareRow(const Scratch& scratch, int64_t row, Worst& worst) const noexcept;
  // True when a row is so close that its bias, beta and magnitude need not be looked at. At `at` in
  // C and `dense` in trusted_.
  bool RowIsClose(const void* c, int64_t at, int64_t dense, double row_factor,
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
