#include "tuner/trial.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "tuner/deny_list.h"
#include "tuner/journal_scope.h"

namespace tunableop {
namespace {

constexpr int kMostProbes = 4;         // noise may spoil some of them
constexpr double kWarmUpShare = 0.02;  // of the budget, for the untimed calls of one candidate
constexpr double kProbeShare = 0.04;   // of the budget, for its probes
constexpr double kMultiplicationsPerMs = 1e5;  // for the reference, of each ms of the budget: 10 %

double ReferenceBudget(const TunerOptions& options) {
  return std::clamp(options.max_tuning_ms * kMultiplicationsPerMs, 2e5, 1.6e7);
}

// Beside the scratch and the copy of the first right answer that the verifier makes.
size_t LeftForCopies(const Problem& p, const TunerOptions& options, const Scratch& scratch) {
  const size_t left = options.max_scratch_bytes - scratch.bytes();
  const size_t answer = static_cast<size_t>(p.m * p.n * p.batch) * SizeOf(p.c_type);
  return answer <= left ? left - answer : left;
}

}  // namespace

Trial::Trial(const Problem& problem, const Operands& operands, Executor& executor,
             const TunerOptions& options, const OperandWatch& watch, Scratch& scratch,
             Sampler& sampler, Field& field)
    : options_(options),
      problem_(problem),
      executor_(executor),
      watch_(watch),
      scratch_(scratch),
      sampler_(sampler),
      field_(field),
      writing_(operands),
      verifier_(problem, operands, executor, ReferenceBudget(options),
                options.max_scratch_bytes - scratch.bytes()),
      guard_(problem, operands, LeftForCopies(problem, options, scratch), options.hang_ms) {
  writing_.c = scratch_.c();
}

TimedCall Trial::CallOf(const Contender& contender) const {
  return {contender.index,
          [this, plan = contender.plan.get()] { return plan->Run(writing_, executor_); }};
}

bool Trial::Accept(const Contender& contender, const Status& status) {
  if (status.ok()) return true;
  field_.Reject(contender, "returned an error: " + std::string(status.message()));
  return false;
}

bool Trial::IsWorthAnother(double ms, double give_up_ms) const {
  if (sampler_.Disturbed())
    return ms > std::min(give_up_ms, kMostOfBudget * options_.max_tuning_ms);
  return ms > give_up_ms && ms <= kWarmUpShare * options_.max_tuning_ms;
}

bool Trial::TryApart(Contender& contender, double give_up_ms, double& ms, bool& slow) {
  if (!sampler_.WaitForTurn()) return false;
  if (Status status = guard_.Prepare(); !status.ok()) {
    field_.Reject(contender, std::string(status.message()));
    return false;
  }
  bool hung = false;
  const int64_t begin = sampler_.Now();
  const Status status = [&] {
    const CallScope scope(options_.journal, contender.index);
    return guard_.Call(contender.backend, contender.plan, hung);
  }();
  const int64_t ns = sampler_.Now() - begin;
  if (hung) {
    sampler_.Forgive(ns);
    char reason[96];
    std::snprintf(reason, sizeof(reason), "did not return within %.3g s: abandoned",
                  options_.hang_ms * 1e-3);
    field_.Reject(contender, reason);
    if (options_.remember_wrong && !contender.spectator) {
      Deny(contender.candidate, contender.backend->identity(), reason);
    }
    return false;
  }
  contender.returned = true;
  ms = static_cast<double>(ns) * 1e-6;
  const double limit = give_up_ms * std::max<double>(1.0, problem_.threads);  // it had one thread
  slow = ms > limit && !IsWorthAnother(ms, limit);
  return Accept(contender, status);
}

bool Trial::RunAndCheck(Contender& contender, double give_up_ms, double& ms) {
  if (contender.backend->may_hang() && !contender.returned) {
    bool slow = false;
    if (!TryApart(contender, give_up_ms, ms, slow)) return false;
    if (slow) return true;
  }
  for (int left = 3; left > 0; --left) {
    if (options_.verify) verifier_.Prepare(scratch_);
    if (!Accept(contender, sampler_.Once(CallOf(contender), ms))) return false;
    if (sampler_.stopped()) return false;
    if (sampler_.OutOfTime() || !IsWorthAnother(ms, give_up_ms)) break;
  }
  if (ms > give_up_ms) return true;
  if (options_.verify) {
    if (!sampler_.WaitForTurn()) return false;
    const Verifier::Verdict verdict = verifier_.Check(scratch_, contender.candidate.FullName());
    if (!verdict.right && watch_.Changed()) {
      sampler_.Stop();  // whoever is right now is so by luck
      return false;
    }
    contender.error = std::max(contender.error, verdict.error);
    if (!verdict.right) {
      field_.RejectWrong(contender, verdict.reason);
      return false;
    }
  }
  contender.right = true;
  return true;
}

bool Trial::Probe(Contender& contender, double first_ms, double enough_ms) {
  const double affordable = kWarmUpShare * options_.max_tuning_ms / std::max(first_ms, 1e-6);
  const int warm_up = std::min(options_.warmup_iter, static_cast<int>(std::min(affordable, 1e6)));
  double best = first_ms;
  for (int i = 0; i < warm_up && !sampler_.OutOfTime(); ++i) {
    double ms = 0.0;
    if (!Accept(contender, sampler_.Once(CallOf(contender), ms))) return false;
    if (ms < 0.0) return false;
    best = std::min(best, ms);
  }
  const double probes = kProbeShare * options_.max_tuning_ms / std::max(first_ms, 1e-6);
  const int most = static_cast<int>(std::min<double>(probes, kMostProbes));
  for (int i = 0; i < most && !sampler_.OutOfTime(); ++i) {
    double ms = 0.0;
    Status status = sampler_.Take(CallOf(contender), CallsPerSample(best), 0.0, ms);
    if (!Accept(contender, status)) return false;
    if (ms < 0.0) break;
    contender.samples.push_back(ms);
    if (i >= 1 && BestSample(contender) <= enough_ms) break;
  }
  if (sampler_.stopped()) return false;
  if (contender.samples.empty()) contender.samples.push_back(first_ms);
  return true;
}

}  // namespace tunableop
