// Who is being tried right now: told before each call of a candidate, so that a process which a
// kernel kills leaves its name behind (cache/crash_journal.h keeps it in a file).
#pragma once

#include <cstddef>
#include <span>

#include "gemm/backend.h"
#include "gemm/problem.h"

namespace tunableop {

// One measurement at a time: calls come from one thread, in the order Begin, (Enter, Leave)*, End.
class TrialJournal {
 public:
  virtual ~TrialJournal() = default;

  // The candidates of one problem. What is needed of them is copied.
  virtual void Begin(const Problem& problem, std::span<const Candidate> candidates) noexcept = 0;
  // candidates[index] is about to be called; as cheap as a store.
  virtual void Enter(size_t index) noexcept = 0;
  // It came back.
  virtual void Leave() noexcept = 0;
  virtual void End() noexcept = 0;
};

}  // namespace tunableop
