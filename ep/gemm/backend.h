// A library of GEMM kernels, seen from the tuner and the provider.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gemm/executor.h"
#include "gemm/problem.h"
#include "gemm/status.h"

namespace tunableop {

// The data of one call. Strides and types are in the Problem. All memory is the caller's.
struct Operands {
  const void* a = nullptr;
  const void* b = nullptr;          // BLayout::kPlain
  const float* packed_b = nullptr;  // BLayout::kPacked: see gemm/packed_b.h
  void* c = nullptr;                // read only when beta is not zero
  const void* bias = nullptr;       // [n], epilogues with a bias
  float alpha = 1.0F;
  float beta = 0.0F;
};

// Names one kernel of one library. `kernel` is stable between versions of the library as far as the
// library allows, and is what a file keeps; `opaque_id` is only meaningful to the same library
// build.
struct Candidate {
  std::string library;  // "native", "openblas", "hipblaslt" ...
  std::string kernel;   // "avx512:6x64/kc384/rows"
  int64_t opaque_id = -1;
  size_t workspace_bytes = 0;

  // "native:avx512:6x64/kc384/rows"
  std::string FullName() const { return library + ":" + kernel; }
  bool operator==(const Candidate&) const = default;
};

// A kernel made ready for one problem. Immutable and safe to run from any number of threads at
// once.
class Plan {
 public:
  virtual ~Plan() = default;

  // Computes C. `operands` must fit the Problem that the plan was prepared for. Allocates nothing
  // that grows with the number of calls, takes no lock, does no I/O. Thread-safe.
  virtual Status Run(const Operands& operands, Executor& executor) const noexcept = 0;
};

enum class CandidateScope : uint8_t {
  kDefault,  // the few that a cheap prior ranks first (3 to 5)
  kAll,      // everything the library can do for this problem
};

// Thread-safe: every method may be called from any thread.
class Backend {
 public:
  virtual ~Backend() = default;

  // "native". Lower case, no ':'.
  virtual std::string_view library() const noexcept = 0;

  // True: a call of a kernel may never return. The tuner tries such kernels first on a thread and
  // on copies that it can abandon.
  virtual bool may_hang() const noexcept { return false; }

  // What a saved choice is valid for: a change of this string makes entries of the library stale.
  // Version and instruction set ("0.1.0+avx512"), or version and build of a vendor library.
  virtual std::string identity() const = 0;

  // Kernels that can run `problem`, the library's own best guess first. Empty: none can. The first
  // is what runs when nothing was measured (the default kernel), so it must be right and never a
  // gamble. The list depends on `problem` only: no clock, no measurement, no state.
  virtual std::vector<Candidate> Candidates(const Problem& problem, CandidateScope scope) const = 0;

  // Makes a kernel ready. kNotFound: no kernel of that name; kNotSupported: it cannot run this
  // problem.
  virtual Result<std::unique_ptr<Plan>> Prepare(const Problem& problem,
                                                const Candidate& candidate) const = 0;
};

}  // namespace tunableop
