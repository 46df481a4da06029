// A library of GEMM kernels, seen from the tuner and the provider.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gemm/executor.h"
#include "gemm/problem.h"
#include "gemm/status.h"

namespace tunableop {

// The data of one call. Strides and types are in the Problem. All memory is the caller's; it is the
// card's where the kernels are a card's (Executor::queue).
struct Operands {
  const void* a = nullptr;
  const void* b = nullptr;          // BLayout::kPlain
  const float* packed_b = nullptr;  // BLayout::kPacked: see gemm/packed_b.h
  // A constant plain B once more, transposed: op(B)^T as n x k, dense rows of k, one for each batch
  // item that has its own. For plans that ask for it (Plan::needs_transposed_b); null otherwise.
  const void* b_transposed = nullptr;
  void* c = nullptr;           // read only when beta is not zero
  const void* bias = nullptr;  // [n], epilogues with a bias
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
  // that grows with the number of calls, takes no lock (but for DeviceQueue::Turn), does no I/O.
  // Thread-safe.
  // A card's kernel is queued on executor.queue() when this returns, and not done.
  virtual Status Run(const Operands& operands, Executor& executor) const noexcept = 0;

  // It reads Operands::b_transposed in place of b.
  virtual bool needs_transposed_b() const noexcept { return false; }
};

enum class CandidateScope : uint8_t {
  kDefault,  // the few that a cheap prior ranks first (3 to 5)
  kAll,      // everything the library can do for this problem
};

// A kernel and what it took, for Backend::Explore.
struct TimedCandidate {
  Candidate candidate;
  double ms = 0.0;
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

  // Whether it has kernels for plain products of this type, where that can be said without asking
  // the library, whose first answer for a type may take it 100 ms. Nothing: ask for Candidates.
  virtual std::optional<bool> KnownToRun(DataType /*type*/) const noexcept { return std::nullopt; }

  // Why no candidates come of anything just now: the library has no memory for what it needs before
  // it can be asked, say. OK: it can be asked.
  virtual Status Ready() const { return Status::Ok(); }

  // Kernels that can run `problem`, the library's own best guess first. Empty: none can. The first
  // is what runs when nothing was measured (the default kernel), so it must be right and never a
  // gamble. The list depends on `problem` only: no clock, no measurement, no state.
  virtual std::vector<Candidate> Candidates(const Problem& problem, CandidateScope scope) const = 0;

  // For libraries whose kernels are too many to list: at most `count` more that can run `problem`,
  // none of which is among `known`. Without any in `known` that was timed: drawn at random, the
  // same for the same `seed`. Else near the fastest of them. Empty: there are no more, or the
  // library has no such search.
  virtual std::vector<Candidate> Explore(const Problem& /*problem*/,
                                         std::span<const TimedCandidate> /*known*/,
                                         uint64_t /*seed*/, size_t /*count*/) const {
    return {};
  }

  // Queues on executor.queue(): `out` becomes what Operands::b_transposed says of the plain B `b`.
  // kNotSupported: the library cannot.
  virtual Status TransposeB(const Problem& /*problem*/, const void* /*b*/, void* /*out*/,
                            Executor& /*executor*/) const {
    return {StatusCode::kNotSupported, "the library does not transpose"};
  }

  // Makes a kernel ready. kNotFound: no kernel of that name; kNotSupported: it cannot run this
  // problem.
  virtual Result<std::unique_ptr<Plan>> Prepare(const Problem& problem,
                                                const Candidate& candidate) const = 0;
};

}  // namespace tunableop
