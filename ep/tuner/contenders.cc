#include "tuner/contenders.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tuner/deny_list.h"

namespace tunableop {

double BestSample(const Contender& contender) {
  return *std::min_element(contender.samples.begin(), contender.samples.end());
}

void Field::Reject(const Contender& contender, std::string reason) {
  rejected.push_back({contender.candidate, std::move(reason)});
}

void Field::RejectWrong(Contender& contender, const std::string& reason) {
  contender.right = false;
  wrong.push_back({contender.candidate, reason});
  rejected.push_back({contender.candidate, reason});
}

bool Field::IsRejected(const Contender& contender) const {
  return std::any_of(rejected.begin(), rejected.end(),
                     [&](const Rejection& r) { return r.candidate == contender.candidate; });
}

std::string Field::Reasons() const {
  std::string reasons;
  for (const Rejection& r : rejected) reasons += "; " + r.candidate.FullName() + " " + r.reason;
  return reasons;
}

Result<Field> GatherContenders(const Problem& problem,
                               std::span<const std::shared_ptr<const Backend>> backends,
                               const TunerOptions& options) {
  Field field;
  for (const std::shared_ptr<const Backend>& backend : backends) {
    if (backend == nullptr) continue;
    for (Candidate& candidate : backend->Candidates(problem, options.candidates)) {
      if (options.remember_wrong) {
        if (const std::optional<std::string> reason = DenialOf(candidate)) {
          field.rejected.push_back({std::move(candidate), "denied: " + *reason});
          continue;
        }
      }
      Result<std::unique_ptr<Plan>> plan = backend->Prepare(problem, candidate);
      if (plan.ok() && plan.value() != nullptr) {
        field.contenders.push_back({.index = field.contenders.size(),
                                    .candidate = std::move(candidate),
                                    .plan = std::move(plan.value())});
      } else {
        field.rejected.push_back(
            {std::move(candidate),
             "cannot be prepared: " +
                 (plan.ok() ? "no plan" : std::string(plan.status().message()))});
      }
    }
  }
  if (!field.contenders.empty()) return field;
  return Status(StatusCode::kNotSupported,
                ToString(problem) + ": no library can run it" + field.Reasons());
}

}  // namespace tunableop
