// SessionState: kernels that must not run, and what earlier processes died of.
#include <algorithm>
#include <optional>
#include <utility>

#include "provider/session_state.h"
#include "provider/unix_seconds.h"
#include "tuner/deny_list.h"

namespace tunableop {
namespace {

constexpr int64_t kSuspicionSeconds = 7 * 24 * 3600;

// A record with an end and without deaths is a suspicion of the default kernel: see LearnOfDeaths.
bool InForce(const DeniedRecord& denied) noexcept {
  return denied.until == 0 || (denied.until > UnixSeconds() && denied.deaths > 0);
}

DeniedRecord* FindDenied(std::vector<DeniedRecord>& all, const DeniedRecord& one) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const DeniedRecord& d) {
    return d.library == one.library && d.kernel == one.kernel &&
           d.library_identity == one.library_identity;
  });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

void SessionState::TakeDenied(std::vector<DeniedRecord> denied) {
  for (DeniedRecord& record : denied) {
    const std::shared_ptr<const Backend> backend = target_.Find(record.library);
    const bool concerns_us =
        backend != nullptr && backend->identity() == record.library_identity && InForce(record);
    if (concerns_us) {
      const Candidate candidate{record.library, record.kernel};
      Deny(candidate, record.library_identity, record.reason);
      Note(candidate.FullName() + " denied: " + record.reason);
    }
    const std::lock_guard lock(known_mutex_);
    if (DeniedRecord* known = FindDenied(denied_known_, record); known != nullptr) {
      known->deaths = std::max(known->deaths, record.deaths);
      known->until =
          known->until == 0 || record.until == 0 ? 0 : std::max(known->until, record.until);
    } else {
      denied_known_.push_back(std::move(record));
    }
  }
}

void SessionState::LearnOfDeaths() {
  // A kernel is blamed for the process that ended while it ran. A first death may be chance (kill
  // -9 in that very moment): it counts for a week, and a second one within it for good. The default
  // kernel, which runs without any measurement too, is one death behind.
  for (const Death& death : CollectDeaths(options_.cache_path)) {
    const std::shared_ptr<const Backend> backend = target_.Find(death.library);
    if (backend == nullptr) continue;  // of a library that is not here any more
    DeniedRecord record;
    record.library = death.library;
    record.kernel = death.kernel;
    record.library_identity = backend->identity();
    record.denied_at = UnixSeconds();
    record.deaths = death.is_default ? 0 : 1;
    {
      const std::lock_guard lock(known_mutex_);
      if (const DeniedRecord* known = FindDenied(denied_known_, record); known != nullptr) {
        record.deaths = known->deaths + 1;
      }
    }
    record.reason = std::string(kDeathReason) + " (" + death.problem + ")";
    if (record.deaths < 2) record.until = record.denied_at + kSuspicionSeconds;
    const std::string line = death.library + ":" + death.kernel + ": " + record.reason;
    log_.Warning(line + (InForce(record) ? "; it is not tried again"
                                         : "; it is the default, and gets another chance"));
    if (!InForce(record)) Note(line);
    std::vector<DeniedRecord> one;
    one.push_back(std::move(record));
    TakeDenied(std::move(one));
    dirty_.store(true);
  }
}

void SessionState::ForgetDenied() {
  const uint64_t count = DenialCount();
  const std::lock_guard lock(known_mutex_);
  std::erase_if(known_,
                [](const auto& item) { return DenialOf(item.second.record.winner).has_value(); });
  std::erase_if(ranges_,
                [](const auto& item) { return DenialOf(item.second.record.winner).has_value(); });
  for (const std::shared_ptr<const Entry>& entry : cache_.Entries()) {
    if (!DenialOf(entry->record.winner)) continue;
    cache_.Erase(entry->record.problem);
    choices_denied_.fetch_add(1);
  }
  denials_seen_.store(count, std::memory_order_relaxed);
}

std::vector<DeniedRecord> SessionState::DeniedRecords() const {
  std::vector<DeniedRecord> records;
  {
    const std::lock_guard lock(known_mutex_);
    records = denied_known_;
  }
  for (const Denial& denial : Denials()) {
    DeniedRecord record;
    record.library = denial.candidate.library;
    record.kernel = denial.candidate.kernel;
    record.library_identity = denial.identity;
    record.reason = denial.reason;
    record.denied_at = UnixSeconds();
    if (FindDenied(records, record) == nullptr) records.push_back(std::move(record));
  }
  return records;
}

}  // namespace tunableop
