// SessionState: which form runs of a kernel that has several.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "provider/session_state.h"
#include "provider/steady_ms.h"
#include "provider/unix_seconds.h"
#include "provider/without_measuring.h"
#include "tuner/clock.h"
#include "tuner/form_race.h"

namespace tunableop {
namespace {

constexpr int64_t kPutOffNs = 1'000'000'000;
constexpr int64_t kNoMemoryNs = 10'000'000'000;
// What any card does at least. A form that takes long at that is waited for.
constexpr double kFewestFlopsPerMs = 2e7;

std::string FormLine(const FormRecord& record, const std::string& why) {
  char text[96];
  std::snprintf(text, sizeof(text), " %.3g ms, %s %.3g ms; ", record.form_ms,
                record.usual_form.c_str(), record.usual_ms);
  return "form (" + record.group + ", " + record.shape + "): " + record.form + text + why;
}

// The flag is this thread's while this lives.
class Claim {
 public:
  explicit Claim(std::atomic<bool>& flag) noexcept : flag_(flag), mine_(!flag.exchange(true)) {}
  ~Claim() {
    if (mine_) flag_.store(false);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  bool mine() const noexcept { return mine_; }

 private:
  std::atomic<bool>& flag_;
  const bool mine_;
};

}  // namespace

std::string SessionState::FormIdentity() const {
  std::string identity = TUNABLEOP_VERSION;
  for (const std::shared_ptr<const Backend>& backend : target_.backends()) {
    identity += " " + std::string(backend->library()) + " " + backend->identity();
  }
  return identity;
}

size_t SessionState::TakeForms(std::vector<FormRecord> records, std::string_view origin,
                               std::vector<std::string>& refused) {
  const std::string here = FormIdentity();
  size_t taken = 0;
  for (FormRecord& record : records) {
    if (record.library_identity != here) {
      refused.push_back(std::string(origin) + ": form (" + record.group + ", " + record.shape +
                        "): field 'library_identity': expected '" + here + "', found '" +
                        record.library_identity + "'; form ignored");
      continue;
    }
    forms_.Take(std::move(record), std::string(origin));
    ++taken;
  }
  return taken;
}

Status SessionState::RunUnsettledForm(const FormCall& call, const DeviceQueue& queue,
                                      const RunOfForm& run) {
  FormChoice* choice = forms_.FindOrAdd(call.key, call.usual);
  if (choice == nullptr) return run(call.usual);
  bool changed = false;
  std::string refused;
  if (forms_.Adopt(*choice, changed, refused)) {
    if (changed) choice_changes_.fetch_add(1);
    return run(choice->form.load());
  }
  if (!refused.empty()) {
    log_.Warning(refused);
    Note(std::move(refused));
  }
  const bool on_demand = collecting_.load(std::memory_order_relaxed);
  if (mode() != TuningMode::kOnline && !on_demand) {
    forms_.SettleUnknown(*choice);  // until the mode changes, which it may just have done
    if (mode() == TuningMode::kOnline || collecting_.load()) choice->settled.store(false);
    return run(choice->form.load());
  }
  const int64_t until = choice->next_try_ns.load(std::memory_order_relaxed);
  const bool put_off = !on_demand && until != 0 && SteadyNow() < until;
  if (WithoutMeasuring::Here()) WithoutMeasuring::CountUnmeasured();
  const Claim claim(choice->busy);
  if (put_off || !claim.mine() || WithoutMeasuring::Here() ||
      queue.device().IsCapturing(queue.stream())) {
    return run(choice->form.load());
  }
  return MeasureForm(*choice, call, queue, run);
}

// The usual form last: its answer stays.
Status SessionState::RunAllForms(const FormCall& call, const RunOfForm& run, std::string& failure) {
  const std::span<const char* const> forms = call.key.group->forms;
  for (size_t form = 0; form < forms.size() && failure.empty(); ++form) {
    if (form == call.usual) continue;
    const Status status = run(form);
    if (!status.ok()) failure = std::string(forms[form]) + ": " + std::string(status.message());
  }
  return run(call.usual);
}

Result<FormResult> SessionState::RaceInOrder(std::span<const size_t> order, const FormCall& call,
                                             const DeviceQueue& queue, const RunOfForm& run) {
  std::vector<Form> forms;
  for (const size_t form : order) {
    forms.push_back({call.key.group->forms[form], [&run, form] { return run(form); }});
  }
  FormOptions options;
  options.min_gain = options_.tuner.min_gain;
  options.max_ms = options_.tuner.max_tuning_ms;
  options.verify = options_.tuner.verify;
  options.cold =
      call.weights && weight_bytes_.load(std::memory_order_relaxed) > target_.CacheBytes(0);
  options.launched = !call.key.replayed;
  options.max_bytes = options_.tuner.max_scratch_bytes;
  options.hang_ms = std::max(options_.tuner.hang_ms, Flops(call.like) / kFewestFlopsPerMs);
  const int64_t begin = SteadyNow();
  Result<FormResult> raced = RaceForms(forms, call.answers, call.like, queue, options);
  const int64_t spent_ns = SteadyNow() - begin;
  budget_.Spend(static_cast<double>(spent_ns) * 1e-6);
  tuning_microseconds_.fetch_add(spent_ns / 1000, std::memory_order_relaxed);
  dirty_.store(true, std::memory_order_relaxed);
  return raced;
}

Status SessionState::MeasureForm(FormChoice& choice, const FormCall& call, const DeviceQueue& queue,
                                 const RunOfForm& run) {
  const auto put_off = [&](int64_t for_ns) {
    choice.next_try_ns.store(SteadyNow() + for_ns, std::memory_order_relaxed);
  };
  const bool on_demand = collecting_.load(std::memory_order_relaxed);
  if ((budget_.Exhausted() && !on_demand) ||
      no_memory_until_ns_.load(std::memory_order_relaxed) > SteadyNow()) {
    put_off(kPutOffNs);
    return run(choice.form.load());
  }
  const std::span<const char* const> names = call.key.group->forms;
  FormRecord record{choice.key.group->name,
                    choice.shape,
                    names[call.usual],
                    names[call.usual],
                    FormIdentity(),
                    0.0,
                    0.0,
                    false,
                    UnixSeconds()};
  const std::string about = record.group + " (" + record.shape + "): ";
  const auto keep_usual = [&](const std::string& why) {
    Note(about + why);
    if (forms_.Put(choice, call.usual, std::move(record), why)) choice_changes_.fetch_add(1);
  };
  if (call.bytes > options_.tuner.max_scratch_bytes) {
    keep_usual("not measured: its forms take more memory than max_tuning_bytes");
    return run(call.usual);
  }
  // Once each, in which their products are measured by themselves, and once more to see that they
  // were.
  std::string failure;
  TUNABLEOP_RETURN_IF_ERROR(RunAllForms(call, run, failure));
  const WithoutMeasuring here;
  if (failure.empty()) TUNABLEOP_RETURN_IF_ERROR(RunAllForms(call, run, failure));
  if (!failure.empty()) {
    keep_usual(failure);
    return Status::Ok();
  }
  std::unique_lock measuring(Measuring(), std::try_to_lock);
  if (here.unmeasured() > 0 || !measuring.owns_lock()) {
    if (!measuring.owns_lock()) MeasuringWanted().store(SteadyNow(), std::memory_order_relaxed);
    put_off(kPutOffNs);
    return Status::Ok();
  }
  std::vector<size_t> order = {call.usual};
  for (size_t form = 0; form < names.size(); ++form) {
    if (form != call.usual) order.push_back(form);
  }
  Result<FormResult> raced = RaceInOrder(order, call, queue, run);
  measuring.unlock();
  if (!raced.ok()) {
    const Status status = raced.TakeStatus();
    if (status.code() == StatusCode::kInternal)
      return {status.code(), about + std::string(status.message())};
    Note(about + "not measured: " + std::string(status.message()));
    put_off(kNoMemoryNs);
    return run(call.usual);
  }
  const FormResult& result = raced.value();
  for (const std::string& refused : result.refused) Note(about + refused);
  const size_t winner = order[result.winner];
  record.form = names[winner];
  record.form_ms = result.winner_ms;
  record.usual_ms = result.usual_ms;
  record.cold = result.cold;
  std::string why = result.why;
  for (const std::string& refused : result.refused) why += "; " + refused;
  log_.Info(FormLine(record, why));
  if (forms_.Put(choice, winner, std::move(record), std::move(why))) choice_changes_.fetch_add(1);
  forms_measured_.fetch_add(1, std::memory_order_relaxed);
  if (!options_.cache_path.empty() && SteadyMs() - last_save_ms_.load() >= kSaveIntervalMs)
    SaveOwnCache(log_, /*patience_ms=*/0);
  return run(winner);  // what was measured last may have been refused
}

}  // namespace tunableop
