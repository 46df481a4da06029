// The calls of a TrialJournal in pairs, whatever is thrown between them. The journal may be null.
#pragma once

#include <cstddef>
#include <span>

#include "gemm/trial_journal.h"

namespace tunableop {

class JournalScope {
 public:
  JournalScope(TrialJournal* journal, const Problem& problem, std::span<const Candidate> candidates)
      : journal_(journal) {
    if (journal_ != nullptr) journal_->Begin(problem, candidates);
  }
  ~JournalScope() {
    if (journal_ != nullptr) journal_->End();
  }
  JournalScope(const JournalScope&) = delete;
  JournalScope& operator=(const JournalScope&) = delete;

 private:
  TrialJournal* const journal_;
};

class CallScope {
 public:
  CallScope(TrialJournal* journal, size_t index) : journal_(journal) {
    if (journal_ != nullptr) journal_->Enter(index);
  }
  ~CallScope() {
    if (journal_ != nullptr) journal_->Leave();
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  TrialJournal* const journal_;
};

}  // namespace tunableop
