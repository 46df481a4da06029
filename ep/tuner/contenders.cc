#include "tuner/contenders.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "tuner/deny_list.h"

namespace tunableop {

double BestSample(const Contender& contender) {
  return *std::min_element(contender.samples.begin(), contender.samples.end());
}

void Field::Reject(const Contender& contender, std::string reason) {
  if (contender.spectator) {
    spectator_note = std::move(reason);
  } else {
    rejected.push_back({contender.candidate, std::move(reason)});
  }
}

void Field::RejectWrong(Contender& contender, const std::string& reason) {
  contender.right = false;
  if (!contender.spectator) wrong.push_back({contender.index, reason});
  Reject(contender, reason);
}

bool Field::IsRejected(const Candidate& candidate) const {
  return std::any_of(rejected.begin(), rejected.end(),
                     [&](const Rejection& r) { return r.candidate == candidate; });
}

size_t Field::electable() const {
  return contenders.size() - (contenders.back().spectator ? 1 : 0);
}

Contender* Field::spectator() { return contenders.back().spectator ? &contenders.back() : nullptr; }

std::string Field::NameOf(const Contender& contender) const {
  return contender.index == 0 ? "the default" : "what served";
}

std::string Field::Reasons() const {
  std::string reasons;
  for (const Rejection& r : rejected) reasons += "; " + r.candidate.FullName() + " " + r.reason;
  return reasons;
}

std::string AddContender(Field& field, const Problem& problem,
                         const std::shared_ptr<const Backend>& backend, const Candidate& candidate,
                         const TunerOptions& options) {
  if (options.remember_wrong) {
    if (const std::optional<std::string> reason = DenialOf(candidate, backend->identity())) {
      return "denied: " + *reason;
    }
  }
  Result<std::unique_ptr<Plan>> plan = backend->Prepare(problem, candidate);
  if (!plan.ok()) return "cannot be prepared: " + std::string(plan.status().message());
  if (plan.value() == nullptr) return "cannot be prepared: no plan";
  field.contenders.push_back({.index = field.contenders.size(),
                              .candidate = candidate,
                              .plan = std::move(plan.value()),
                              .backend = backend});
  return {};
}

namespace {

void AddIncumbent(Field& field, const Problem& problem,
                  std::span<const std::shared_ptr<const Backend>> backends,
                  const TunerOptions& options) {
  const std::string name = options.incumbent->FullName();
  for (const Contender& contender : field.contenders) {
    if (contender.candidate.FullName() != name) continue;
    field.incumbent = contender.index;
    return;
  }
  for (const Rejection& rejection : field.rejected) {
    if (rejection.candidate.FullName() == name) return;
  }
  std::string reason = "cannot be prepared: its library is not here";
  for (const std::shared_ptr<const Backend>& backend : backends) {
    if (backend == nullptr || backend->library() != options.incumbent->library) continue;
    reason = AddContender(field, problem, backend, *options.incumbent, options);
    if (!reason.empty()) continue;
    field.incumbent = field.contenders.size() - 1;
    return;
  }
  field.rejected.push_back({*options.incumbent, std::move(reason)});
}

void AddSpectator(Field& field, const Problem& problem, const TunerOptions& options) {
  try {
    const std::vector<Candidate> candidates =
        options.spectator->Candidates(problem, CandidateScope::kDefault);
    if (candidates.empty()) {
      field.spectator_note = "has no kernel for this problem";
      return;
    }
    field.spectator_note =
        AddContender(field, problem, options.spectator, candidates.front(), options);
    if (field.spectator_note.empty()) field.contenders.back().spectator = true;
  } catch (const std::exception& error) {  // it is no reason not to tune
    field.spectator_note = std::string("cannot be prepared: ") + error.what();
  }
}

}  // namespace

Result<Field> GatherContenders(const Problem& problem,
                               std::span<const std::shared_ptr<const Backend>> backends,
                               const TunerOptions& options) {
  Field field;
  for (const std::shared_ptr<const Backend>& backend : backends) {
    if (backend == nullptr) continue;
    for (Candidate& candidate : backend->Candidates(problem, options.candidates)) {
      std::string reason = AddContender(field, problem, backend, candidate, options);
      if (!reason.empty()) field.rejected.push_back({std::move(candidate), std::move(reason)});
    }
  }
  if (options.incumbent) AddIncumbent(field, problem, backends, options);
  if (field.contenders.empty()) {
    return Status(StatusCode::kNotSupported,
                  ToString(problem) + ": no library can run it" + field.Reasons());
  }
  if (options.spectator != nullptr) AddSpectator(field, problem, options);
  return field;
}

}  // namespace tunableop
