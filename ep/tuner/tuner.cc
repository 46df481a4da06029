#include "tuner/tuner.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "tuner/deny_list.h"
#include "tuner/race.h"
#include "tuner/scratch.h"
#include "tuner/verifier.h"

namespace tunableop {
namespace {

constexpr double kProbeLimit = 1.5;     // times the default's: slower ones do not race
constexpr double kHopeless = 3.0;       // times the default's: not even checked
constexpr int kMostProbes = 4;          // noise may spoil some of them
constexpr double kWarmUpShare = 0.02;   // of the budget, for the untimed calls of one candidate
constexpr double kProbeShare = 0.04;    // of the budget, for its probes
constexpr double kProbingShare = 0.5;   // of the budget: then the race begins with who is there
constexpr double kMostOfBudget = 0.25;  // a default that takes more leaves no time for rounds
constexpr double kBytesPerMs = 256
                               << 10;  // of C, for each ms of the budget: checking takes time too
constexpr size_t kMostLanes = 8;       // that race; of more, those with the best probes
constexpr double kMultiplicationsPerMs = 1e5;  // for the reference, of each ms of the budget: 10 %

struct Contender {
  Candidate candidate;
  std::shared_ptr<const Plan> plan;
  std::vector<double> probes;
  double error = 0.0;
  bool right = false;  // verified, or verification is off and it ran
};

std::string Milliseconds(double ms) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g ms", ms);
  return text;
}

class Tuning {
 public:
  Tuning(const Problem& problem, const Operands& operands, Executor& executor,
         const TunerOptions& options)
      : problem_(problem),
        operands_(operands),
        executor_(executor),
        options_(options),
        now_(options.now ? options.now : NowFn(&SteadyNow)),
        start_(now_()),
        deadline_(start_ +
                  static_cast<int64_t>(std::clamp(options.max_tuning_ms, 0.0, 1e9) * 1e6)) {}

  Result<TuneResult> Run(std::span<const std::shared_ptr<const Backend>> backends) {
    TUNABLEOP_RETURN_IF_ERROR(Gather(backends));
    if (contenders_.size() == 1 && !options_.verify) {
      return Default("the default: there is no other candidate");
    }
    if (problem_.m == 0 || problem_.n == 0 || problem_.k == 0 || problem_.batch == 0) {
      return Default("the default: there is nothing to compute");
    }
    if (problem_.batch > 1 && problem_.stride_c == 0) {
      return Default("the default, unmeasured: the batch items of C overlap");
    }
    const double bytes = static_cast<double>(problem_.m) * static_cast<double>(problem_.n) *
                         static_cast<double>(problem_.batch) *
                         static_cast<double>(SizeOf(problem_.c_type));
    if (bytes > kBytesPerMs * options_.max_tuning_ms) {
      return DefaultForWantOfTime("the default, unmeasured: a budget of " +
                                  Milliseconds(options_.max_tuning_ms) +
                                  " does not pay for checking a C of " +
                                  std::to_string(static_cast<int64_t>(bytes) >> 10) + " KiB");
    }
    Result<Scratch> scratch = Scratch::Create(problem_, options_.max_scratch_bytes);
    if (!scratch.ok()) {
      return Default("the default, unmeasured: " + std::string(scratch.status().message()));
    }
    scratch_.emplace(std::move(scratch.value()));
    writing_ = operands_;
    writing_.c = scratch_->c();
    const double budget = std::clamp(options_.max_tuning_ms * kMultiplicationsPerMs, 2e5, 1.6e7);
    verifier_.emplace(problem_, operands_, executor_, budget,
                      options_.max_scratch_bytes - scratch_->bytes());
    return Measure();
  }

 private:
  double SpentMs() const { return static_cast<double>(now_() - start_) * 1e-6; }
  bool OutOfTime() const { return now_() >= deadline_; }

  void Reject(const Candidate& candidate, std::string reason) {
    rejected_.push_back({candidate, std::move(reason)});
  }

  // Prepares every candidate; the first is the default.
  Status Gather(std::span<const std::shared_ptr<const Backend>> backends) {
    for (const std::shared_ptr<const Backend>& backend : backends) {
      if (backend == nullptr) continue;
      for (Candidate& candidate : backend->Candidates(problem_, options_.candidates)) {
        if (options_.remember_wrong) {
          if (const std::optional<std::string> reason = DenialOf(candidate)) {
            Reject(candidate, "denied: " + *reason);
            continue;
          }
        }
        Result<std::unique_ptr<Plan>> plan = backend->Prepare(problem_, candidate);
        if (plan.ok() && plan.value() != nullptr) {
          contenders_.push_back({std::move(candidate), std::move(plan.value()), {}, 0.0, false});
        } else {
          Reject(candidate, "cannot be prepared: " +
                                (plan.ok() ? "no plan" : std::string(plan.status().message())));
        }
      }
    }
    if (!contenders_.empty()) return Status::Ok();
    std::string reason = ToString(problem_) + ": no library can run it";
    for (const Rejection& r : rejected_) reason += "; " + r.candidate.FullName() + " " + r.reason;
    return {StatusCode::kNotSupported, reason};
  }

  // One call into the scratch; milliseconds.
  Status TimeCall(const Contender& contender, double& ms) const {
    const int64_t begin = now_();
    Status status = contender.plan->Run(writing_, executor_);
    ms = static_cast<double>(now_() - begin) * 1e-6;
    return status;
  }

  // Runs and checks the answer. `give_up_ms`: slower calls are not checked (the contender is not
  // `right` then). A cheap one may try again: the first call of a kernel is slow for many reasons.
  // False: rejected.
  bool RunAndCheck(Contender& contender, double give_up_ms, double& ms) {
    for (int left = 3; left > 0; --left) {
      if (options_.verify) verifier_->Prepare(*scratch_);
      if (!Call(contender, ms)) return false;
      if (ms <= give_up_ms || ms > kWarmUpShare * options_.max_tuning_ms || OutOfTime()) break;
    }
    if (ms > give_up_ms) return true;
    if (options_.verify) {
      const Verifier::Verdict verdict = verifier_->Check(*scratch_, contender.candidate.FullName());
      contender.error = std::max(contender.error, verdict.error);
      if (!verdict.right) {
        contender.right = false;
        wrong_.push_back({contender.candidate, verdict.reason});
        Reject(contender.candidate, verdict.reason);
        return false;
      }
    }
    contender.right = true;
    return true;
  }

  // Warms up and measures a first figure: in two probes, or up to four until one is as good as
  // `enough_ms`; fewer of a long call, of which the first says enough. False: rejected.
  bool Probe(Contender& contender, double first_ms, double enough_ms) {
    const double affordable = kWarmUpShare * options_.max_tuning_ms / std::max(first_ms, 1e-6);
    const int warm_up = std::min(options_.warmup_iter, static_cast<int>(std::min(affordable, 1e6)));
    double best = first_ms;
    for (int i = 0; i < warm_up && !OutOfTime(); ++i) {
      double ms = 0.0;
      if (!Call(contender, ms)) return false;
      best = std::min(best, ms);
    }
    const double probes = kProbeShare * options_.max_tuning_ms / std::max(first_ms, 1e-6);
    const int most = static_cast<int>(std::min<double>(probes, kMostProbes));
    for (int i = 0; i < most && !OutOfTime(); ++i) {
      double total = 0.0;
      int done = 0;
      for (const int calls = CallsPerSample(best); done < calls && !OutOfTime(); ++done) {
        double ms = 0.0;
        if (!Call(contender, ms)) return false;
        total += ms;
      }
      if (done != 0) contender.probes.push_back(total / done);
      if (i >= 1 && BestProbe(contender) <= enough_ms) break;
    }
    if (contender.probes.empty()) contender.probes.push_back(first_ms);
    return true;
  }

  bool Call(const Contender& contender, double& ms) {
    Status status = TimeCall(contender, ms);
    if (status.ok()) return true;
    Reject(contender.candidate, "returned an error: " + std::string(status.message()));
    return false;
  }

  static double BestProbe(const Contender& contender) {
    return *std::min_element(contender.probes.begin(), contender.probes.end());
  }

  Result<TuneResult> Measure() {
    double default_ms = HUGE_VAL;  // its median probe: a lucky one would be too strict a measure
    std::vector<size_t> racing;
    for (size_t i = 0; i < contenders_.size(); ++i) {
      Contender& contender = contenders_[i];
      // Past the budget only the search for a first right kernel goes on.
      const bool late = OutOfTime() || SpentMs() > kProbingShare * options_.max_tuning_ms;
      if (i != 0 && late && !racing.empty()) {
        if (racing.size() == 1) unraced_ = true;
        break;
      }
      double ms = 0.0;
      if (!RunAndCheck(contender, i == 0 ? HUGE_VAL : kHopeless * default_ms, ms)) continue;
      if (i == 0 && ms > kMostOfBudget * options_.max_tuning_ms) {
        contender.probes.push_back(ms);
        return DefaultForWantOfTime("the default: one call of it takes " + Milliseconds(ms) +
                                    ", too much for a budget of " +
                                    Milliseconds(options_.max_tuning_ms));
      }
      if (!contender.right) {
        contender.probes.push_back(ms);
        continue;  // hopelessly slow
      }
      if (!Probe(contender, ms, i == 0 ? 0.0 : kProbeLimit * default_ms)) {
        contender.right = false;
        continue;
      }
      if (i == 0) default_ms = Median(contender.probes);
      if (BestProbe(contender) <= kProbeLimit * default_ms) racing.push_back(i);
    }
    if (racing.empty()) return NobodyIsRight();
    return Race(std::move(racing));
  }

  // The hopelessly slow were not checked, and one of them may be all that is left.
  Result<TuneResult> NobodyIsRight() {
    for (Contender& contender : contenders_) {
      double ms = 0.0;
      const bool unchecked =
          !contender.right && !contender.probes.empty() && !WasRejected(contender);
      if (unchecked && RunAndCheck(contender, HUGE_VAL, ms)) {
        contender.probes.push_back(ms);
        return Finish(contender, BestProbe(contender), "the only one that is right", {});
      }
    }
    std::string reason = ToString(problem_) + ": every kernel is wrong or fails";
    for (const Rejection& r : rejected_) reason += "; " + r.candidate.FullName() + " " + r.reason;
    return Status(StatusCode::kInternal, reason);
  }

  bool WasRejected(const Contender& contender) const {
    return std::any_of(rejected_.begin(), rejected_.end(),
                       [&](const Rejection& r) { return r.candidate == contender.candidate; });
  }

  // The default and the best others, as many as there is time for some rounds of.
  void ChooseLanes(std::vector<size_t>& racing) const {
    std::stable_sort(racing.begin(), racing.end(), [&](size_t a, size_t b) {
      if (a == 0 || b == 0) return a == 0 && b != 0;  // the default first
      return BestProbe(contenders_[a]) < BestProbe(contenders_[b]);
    });
    constexpr double kRounds = 8.0;  // fewer than that decide little
    double round_ms = 0.0;
    size_t count = 0;
    const double left_ms = options_.max_tuning_ms - SpentMs();
    while (count < std::min(kMostLanes, racing.size())) {
      const double one = BestProbe(contenders_[racing[count]]);
      round_ms += one * CallsPerSample(one);
      if (count >= 2 && round_ms * kRounds > left_ms) break;
      ++count;
    }
    racing.resize(std::max<size_t>(1, count));
  }

  Result<TuneResult> Race(std::vector<size_t> racing) {
    ChooseLanes(racing);
    const bool default_is_right = racing.front() == 0;
    std::vector<Lane> lanes(racing.size());
    for (size_t i = 0; i < racing.size(); ++i) {
      const Contender& contender = contenders_[racing[i]];
      lanes[i].probe_ms = BestProbe(contender);
      lanes[i].call = [this, &contender] { return contender.plan->Run(writing_, executor_); };
    }
    RaceOptions options;
    options.min_gain = options_.min_gain;
    options.deadline_ns = deadline_;
    if (operands_.beta != 0.0F) {
      // C is added to itself in every call: starting afresh keeps it from growing without bound.
      options.before_round = [this] { scratch_->FillC(operands_.c); };
    }
    Election election = RunRace(lanes, default_is_right ? 0 : kNoLane, options, now_);
    if (lanes.size() == 1 && default_is_right) {
      election = {0, unraced_ ? "the default: no time to try another in a budget of " +
                                    Milliseconds(options_.max_tuning_ms)
                     : contenders_.size() == 1 ? "the default: there is no other candidate"
                                               : "the default: no other candidate is right and "
                                                 "within 1.5 times its time"};
    }
    // A kernel may be right once and wrong later.
    while (true) {
      for (size_t i = 0; i < lanes.size(); ++i) {
        if (lanes[i].failure.ok()) continue;
        Reject(contenders_[racing[i]].candidate,
               "returned an error: " + std::string(lanes[i].failure.message()));
        contenders_[racing[i]].right = false;
        lanes[i].failure = Status::Ok();
      }
      if (election.winner == kNoLane) election.winner = FirstRight(racing);
      if (election.winner == kNoLane) return NobodyIsRight();
      Contender& winner = contenders_[racing[election.winner]];
      double ms = 0.0;
      if (!options_.verify || OutOfTime() || RunAndCheck(winner, HUGE_VAL, ms)) break;
      winner.right = false;
      election = {FirstRight(racing), "the fastest was wrong in its last call"};
    }
    const size_t winner = election.winner;
    const double ms = lanes[winner].ms.empty() ? lanes[winner].probe_ms : Median(lanes[winner].ms);
    std::string why = election.why;
    if (!default_is_right) why = "the default is wrong or fails: " + why;
    for (size_t i = 0; i < racing.size(); ++i) {
      if (!lanes[i].ms.empty()) contenders_[racing[i]].probes = std::move(lanes[i].ms);
    }
    return Finish(contenders_[racing[winner]], ms, std::move(why), racing);
  }

  // Position in `racing` of the first that nothing is known against: the default, or the best
  // probe.
  size_t FirstRight(const std::vector<size_t>& racing) const {
    for (size_t i = 0; i < racing.size(); ++i) {
      if (contenders_[racing[i]].right) return i;
    }
    return kNoLane;
  }

  Result<TuneResult> Default(std::string why) {
    const Contender& first = contenders_.front();
    const double ms = first.probes.empty() ? 0.0 : BestProbe(first);
    return Finish(first, ms, std::move(why), {});
  }

  Result<TuneResult> DefaultForWantOfTime(std::string why) {
    unraced_ = contenders_.size() > 1;
    return Default(std::move(why));
  }

  // Only a kernel that stands beside a right one is known to be wrong: if all are, the operands may
  // have changed under our hands, and denying everything would leave the process with nothing.
  void DenyTheWrong() {
    if (!options_.remember_wrong) return;
    for (const Rejection& wrong : wrong_) Deny(wrong.candidate, wrong.reason);
  }

  TuneResult Finish(const Contender& winner, double winner_ms, std::string why,
                    const std::vector<size_t>& raced) {
    if (options_.verify && winner.right) DenyTheWrong();
    TuneResult result;
    result.winner = winner.candidate;
    result.plan = winner.plan;
    result.winner_ms = winner_ms;
    result.error = winner.error;
    result.why = std::move(why);
    result.budget_ms = unraced_ ? options_.max_tuning_ms : 0.0;
    const Contender& first = contenders_.front();
    result.default_candidate = first.candidate;
    if (&winner == &first) {
      result.default_ms = winner_ms;
    } else if (!raced.empty() && raced.front() == 0) {
      result.default_ms = Median(first.probes);
    } else if (!first.probes.empty()) {
      result.default_ms = BestProbe(first);
    }
    for (Contender& contender : contenders_) {
      if (contender.probes.empty()) continue;
      ++result.tried;
      result.samples.push_back({contender.candidate, std::move(contender.probes)});
    }
    result.rejected = std::move(rejected_);
    result.spent_ms = SpentMs();
    return result;
  }

  const Problem& problem_;
  const Operands& operands_;
  Executor& executor_;
  const TunerOptions& options_;
  const NowFn now_;
  const int64_t start_;
  const int64_t deadline_;

  std::vector<Contender> contenders_;
  std::vector<Rejection> rejected_;
  std::vector<Rejection> wrong_;  // of the rejected, those that gave a wrong answer
  bool unraced_ = false;          // there was no time to race anybody
  std::optional<Scratch> scratch_;
  std::optional<Verifier> verifier_;
  Operands writing_;  // operands_ with the scratch for C
};

Status CheckOperands(const Problem& problem, const Operands& operands) {
  TUNABLEOP_RETURN_IF_ERROR(Validate(problem));
  if (Flops(problem) == 0.0) return Status::Ok();
  const auto missing = [&](const char* name) {
    return Status(StatusCode::kInvalidArgument,
                  ToString(problem) + ": expected a pointer to " + name + ", found none");
  };
  if (operands.a == nullptr) return missing("A");
  if (problem.b_layout == BLayout::kPlain && operands.b == nullptr) return missing("B");
  if (problem.b_layout == BLayout::kPacked && operands.packed_b == nullptr) {
    return missing("the packed B");
  }
  if (operands.beta != 0.0F && operands.c == nullptr) return missing("C, which beta asks for");
  const bool biased = problem.epilogue == Epilogue::kBias ||
                      problem.epilogue == Epilogue::kBiasRelu ||
                      problem.epilogue == Epilogue::kBiasGelu;
  if (biased && operands.bias == nullptr) return missing("the bias");
  return Status::Ok();
}

}  // namespace

Result<TuneResult> Tune(const Problem& problem, const Operands& operands, Executor& executor,
                        std::span<const std::shared_ptr<const Backend>> backends,
                        const TunerOptions& options) {
  try {
    if (Status status = CheckOperands(problem, operands); !status.ok()) return status;
    return Tuning(problem, operands, executor, options).Run(backends);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory, ToString(problem) + ": out of memory while tuning");
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, ToString(problem) + ": " + error.what());
  }
}

}  // namespace tunableop
