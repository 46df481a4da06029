#include "tuner/form_race.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "tuner/device_pairs.h"
#include "tuner/device_timer.h"
#include "tuner/preconditions.h"
#include "tuner/race.h"
#include "tuner/sampler.h"
#include "tuner/statistics.h"
#include "tuner/trial.h"

namespace tunableop {
namespace {

constexpr double kRaceShare = 0.88;  // of the budget, as for kernels
constexpr int kProbes = 3;
constexpr double kLongCall = 0.02;        // of the budget: one probe of such a call is enough
constexpr double kBytesPerMs = 16 << 10;  // of answers, that the budget pays to compare
// Of a form that the host takes longer to launch than the usual one: more than that many times
// longer, by so much, is no luck; and a session whose calls take the card so many times as long as
// the host does not wait for the host.
constexpr double kLongerLaunch = 1.1;
constexpr double kHiddenLaunch = 4.0;
constexpr const char* kUsual = "the usual form";

class FormRace {
 public:
  FormRace(std::span<const Form> forms, const DeviceQueue& queue, const FormOptions& options)
      : forms_(forms),
        queue_(queue),
        options_(options),
        now_(options.now ? options.now : NowFn(&SteadyNow)),
        sampler_(now_, nullptr, nullptr),
        lanes_(forms.size()),
        launch_ms_(forms.size(), HUGE_VAL) {}

  Result<FormResult> Run(std::span<const FormAnswer> answers, const Problem& like) {
    TUNABLEOP_RETURN_IF_ERROR(AwaitQueue(queue_, options_.now, options_.hang_ms));
    begin_ = sampler_.Now();
    sampler_.SetDeadline(At(1.0));
    Result<std::unique_ptr<MeasuringStream>> stream =
        MeasuringStream::On(queue_, options_.now, options_.hang_ms);
    if (!stream.ok()) return stream.TakeStatus();
    stream_ = std::move(stream).value();
    Result<std::unique_ptr<DeviceTimer>> timer = DeviceTimer::Create(*stream_, options_.max_bytes);
    if (!timer.ok()) return timer.TakeStatus();
    timer_ = std::move(timer).value();
    caches_ = options_.cold && timer_->CanBeCold() ? Caches::kCold : Caches::kWarm;
    result_.cold = caches_ == Caches::kCold;
    TUNABLEOP_RETURN_IF_ERROR(RunEach(answers, like));
    if (lanes_[0].probe_ms > kMostOfBudget * options_.max_ms) {
      // Who has more time may find out.
      return Keep(0.0, "one call of it takes " + Milliseconds(lanes_[0].probe_ms) +
                           ", too much for a budget of " + Milliseconds(options_.max_ms));
    }
    if (std::none_of(lanes_.begin() + 1, lanes_.end(), [](const Lane& l) { return l.racing; })) {
      return Keep(lanes_[0].probe_ms, "no other form can run here");
    }
    return Race();
  }

 private:
  int64_t At(double share) const {
    return begin_ + static_cast<int64_t>(share * std::clamp(options_.max_ms, 0.0, 1e9) * 1e6);
  }

  Result<FormResult> Keep(double ms, const std::string& why) {
    result_.usual_ms = result_.winner_ms = ms;
    result_.why = std::string(kUsual) + ": " + why;
    return std::move(result_);
  }

  // Everybody once, to see what it gives, and some times more, to see how long it takes.
  Status RunEach(std::span<const FormAnswer> answers, const Problem& like) {
    const double payable = std::clamp(options_.max_ms, 1.0, 1e4) * kBytesPerMs;
    FormAnswers judge(answers, like, std::min(options_.max_bytes / 2, static_cast<size_t>(payable)),
                      *stream_);
    for (size_t i = 0; i < forms_.size(); ++i) {
      std::string wrong;
      const Status status = RunOne(i, judge, wrong);
      if (stream_->broken()) return {StatusCode::kInternal, NameAnd(i, status.message())};
      if (!status.ok() && i == 0) return {status.code(), std::string(status.message())};
      // Nobody races it: what the others take is of no use.
      if (i == 0 && lanes_[0].probe_ms > kMostOfBudget * options_.max_ms) return Status::Ok();
      if (!status.ok()) wrong = status.message();
      if (wrong.empty()) continue;
      lanes_[i].racing = false;
      result_.refused.push_back(NameAnd(i, wrong));
    }
    return Status::Ok();
  }

  Status RunOne(size_t form, FormAnswers& judge, std::string& wrong) {
    if (options_.verify) TUNABLEOP_RETURN_IF_ERROR(judge.Poison());
    double ms = 0.0;
    TUNABLEOP_RETURN_IF_ERROR(timer_->First([this, form] { return Call(form); }, ms));
    if (options_.verify) TUNABLEOP_RETURN_IF_ERROR(judge.Fetch(wrong));
    if (!wrong.empty()) return Status::Ok();
    double& best = lanes_[form].probe_ms;
    for (int i = 0; i < kProbes; ++i) {
      double probe = 0.0;
      TUNABLEOP_RETURN_IF_ERROR(timer_->Measure([this, form] { return Call(form); }, 1,
                                                i == 0 ? ms : best, caches_, probe));
      best = i == 0 ? probe : std::min(best, probe);
      if (best > kLongCall * options_.max_ms) break;
    }
    return Status::Ok();
  }

  // Notes what the host takes at least.
  Status Call(size_t form) {
    const int64_t begin = now_();
    TUNABLEOP_RETURN_IF_ERROR(forms_[form].run());
    launch_ms_[form] = std::min(launch_ms_[form], static_cast<double>(now_() - begin) * 1e-6);
    return Status::Ok();
  }

  std::string NameAnd(size_t form, std::string_view what) const {
    return forms_[form].name + ": " + std::string(what);
  }

  TimedCall CallOf(size_t form, Caches caches) {
    return {form, {}, [this, form, caches](int calls, double& ms) {
              return timer_->Measure([this, form] { return Call(form); }, calls,
                                     lanes_[form].probe_ms, caches, ms);
            }};
  }

  Result<FormResult> Race() {
    for (size_t i = 0; i < lanes_.size(); ++i) lanes_[i].call = CallOf(i, caches_);
    RaceOptions options;
    options.min_gain = options_.min_gain;
    options.incumbent_name = kUsual;
    sampler_.SetDeadline(At(kRaceShare));
    Election election = RunRace(lanes_, 0, options, sampler_);
    sampler_.SetDeadline(At(1.0));
    for (size_t i = 0; i < lanes_.size(); ++i) {
      if (lanes_[i].failure.ok()) continue;
      if (stream_->broken() || i == 0) {
        return Status(StatusCode::kInternal, NameAnd(i, lanes_[i].failure.message()));
      }
      result_.refused.push_back(NameAnd(i, lanes_[i].failure.message()));
    }
    result_.winner = election.winner == kNoLane ? 0 : election.winner;
    result_.why = std::move(election.why);
    TUNABLEOP_RETURN_IF_ERROR(CheckOtherCaches());
    CheckLaunches();
    result_.usual_ms = Median(lanes_[0].ms);
    result_.winner_ms = Median(lanes_[result_.winner].ms);
    return std::move(result_);
  }

  // The winner is put back to the usual form where the host would pay for it.
  void CheckLaunches() {
    const size_t winner = result_.winner;
    const double ms = launch_ms_[winner];
    if (!options_.launched || winner == 0 || ms <= kLongerLaunch * launch_ms_[0] ||
        Median(lanes_[winner].ms) >= kHiddenLaunch * ms) {
      return;
    }
    PutBack("takes " + Milliseconds(ms) + " of the host's time, and the usual form " +
            Milliseconds(launch_ms_[0]));
  }

  void PutBack(const std::string& reason) {
    result_.why = std::string(kUsual) + "; " + forms_[result_.winner].name + " is " + result_.why +
                  ", but " + reason;
    result_.winner = 0;
  }

  // The winner is put back to the usual form where it loses to it there.
  Status CheckOtherCaches() {
    if (result_.winner == 0 || !timer_->CanBeCold()) return Status::Ok();
    double fill_ms = 0.0;
    TUNABLEOP_RETURN_IF_ERROR(timer_->FillMs(fill_ms));
    if (Median(lanes_[0].ms) > kFillsOfLongCall * fill_ms) return Status::Ok();
    const Caches other = caches_ == Caches::kCold ? Caches::kWarm : Caches::kCold;
    const auto samples_of = [&](size_t form) {
      return [this, form, other](std::vector<double>& samples) {
        double ms = -1.0;
        const Status status = sampler_.Take(CallOf(form, other), 1, lanes_[form].probe_ms, ms);
        if (!status.ok() || ms < 0.0) return false;
        samples.push_back(ms);
        return true;
      };
    };
    const std::string loss = LossInPairs(samples_of(result_.winner), samples_of(0),
                                         other == Caches::kWarm ? "warm caches" : "cold caches");
    if (stream_->broken()) return {StatusCode::kInternal, "the card was lost, or hangs"};
    if (loss.empty()) return Status::Ok();
    PutBack(loss);
    return Status::Ok();
  }

  const std::span<const Form> forms_;
  const DeviceQueue& queue_;
  const FormOptions& options_;
  const NowFn now_;
  Sampler sampler_;
  std::vector<Lane> lanes_;        // of the forms
  std::vector<double> launch_ms_;  // of the host, the least that was seen
  int64_t begin_ = 0;
  std::unique_ptr<MeasuringStream> stream_;
  std::unique_ptr<DeviceTimer> timer_;
  Caches caches_ = Caches::kWarm;  // as they are in the race
  FormResult result_;
};

}  // namespace

Result<FormResult> RaceForms(std::span<const Form> forms, std::span<const FormAnswer> answers,
                             const Problem& like, const DeviceQueue& queue,
                             const FormOptions& options) {
  if (queue.device().IsCapturing(queue.stream())) {
    return Status(StatusCode::kNotSupported, "a graph is being captured");
  }
  const CurrentAside current(queue.device());
  return FormRace(forms, queue, options).Run(answers, like);
}

}  // namespace tunableop
