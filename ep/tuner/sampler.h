// Takes samples: the mean time of a batch of calls that is long enough for the clock. Every call of
// a kernel goes through here, so this is where the journal is told, and where the pacer may hold
// us.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "gemm/status.h"
#include "gemm/trial_journal.h"
#include "tuner/clock.h"
#include "tuner/pacer.h"

namespace tunableop {

// Calls for one sample of at least 20 us.
int CallsPerSample(double ms_per_call);

struct TimedCall {
  size_t index = 0;  // of the candidate, for the journal
  std::function<Status()> run;
  // Where a call is only queued, and something else knows how long it took: makes at least `calls`
  // calls, waits for them, and gives the mean milliseconds of one. `run` is not called then, nor
  // what was given to SetBeforeCall.
  // gcc asks for the initialiser where this one is left out.
  // NOLINTNEXTLINE(readability-redundant-member-init)
  std::function<Status(int calls, double& ms)> measure = {};
};

// Used by the one thread that measures.
class Sampler {
 public:
  // `journal` and `pacer` may be null; they must outlive this.
  Sampler(NowFn now, TrialJournal* journal, Pacer* pacer)
      : now_(std::move(now)), journal_(journal), pacer_(pacer) {}
  void SetDeadline(int64_t ns) { deadline_ns_ = ns; }
  // Run before each call, which is then timed on its own. It is not timed, but takes of the budget.
  void SetBeforeCall(std::function<void()> prepare) { before_call_ = std::move(prepare); }

  // Time without what was waited for the pacer.
  int64_t Now() const { return now_() - waited_ns_; }
  bool OutOfTime() const { return stopped() || Now() >= deadline_ns_; }
  // The pacer told us to give up.
  bool cancelled() const { return cancelled_; }
  // Nothing runs any more: cancelled, or Stop() was called.
  bool stopped() const { return cancelled_ || stopped_; }
  void Stop() { stopped_ = true; }
  // Takes a call that was abandoned off the clock: the others shall not pay for it.
  void Forgive(int64_t ns) {
    waited_ns_ += ns;
    forgiven_ns_ += ns;
  }
  int64_t forgiven_ns() const { return forgiven_ns_; }

  // Before anything that takes a while. False: give up.
  bool WaitForTurn();
  // Something else ran since then.
  bool Disturbed() const { return pacer_ != nullptr && pacer_->Disturbed(); }

  // What SetBeforeCall was given.
  void PrepareCall() const {
    if (before_call_) before_call_();
  }

  // Milliseconds of one call, whatever the deadline; -1 when stopped.
  Status Once(const TimedCall& call, double& ms);

  // Milliseconds of a call, the mean over `calls`; -1 when stopped or when there is no time: no
  // call starts after the deadline, nor the first when it is known (`expected_ms`) to end after it.
  // A disturbed sample is taken again, three times at most. The error of a call that fails.
  Status Take(const TimedCall& call, int calls, double expected_ms, double& ms);

 private:
  Status TakeOnce(const TimedCall& call, int calls, double expected_ms, double& ms);
  bool HasTimeFor(double expected_ms) const;

  const NowFn now_;
  TrialJournal* const journal_;
  Pacer* const pacer_;
  std::function<void()> before_call_;  // may be empty
  int64_t deadline_ns_ = 0;
  int64_t waited_ns_ = 0;
  int64_t forgiven_ns_ = 0;
  bool cancelled_ = false;
  bool stopped_ = false;
};

}  // namespace tunableop
