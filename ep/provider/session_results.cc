// SessionState: what was learned, coming in and going out.
#include <algorithm>
#include <chrono>
#include <optional>
#include <unordered_set>
#include <utility>

#include "backends/registry.h"
#include "cache/file_store.h"
#include "provider/session_state.h"
#include "provider/steady_ms.h"
#include "tuner/deny_list.h"

namespace tunableop {

size_t SessionState::Take(std::vector<Record> records, std::vector<std::string> refused,
                          std::string_view origin, std::vector<std::string>& problems) {
  size_t taken = 0;
  for (Record& record : records) {
    const std::string what = std::string(origin) + ": entry (" + ToString(record.problem) + ", " +
                             record.winner.FullName() + "): ";
    const std::shared_ptr<const Backend> backend = FindCpuBackend(record.winner.library);
    if (backend == nullptr) {
      refused.push_back(
          what + "field 'winner.library': expected a library that this process has, found '" +
          record.winner.library + "'; entry ignored");
      continue;
    }
    if (backend->identity() != record.library_identity) {
      refused.push_back(what + "field 'library_identity': expected '" + backend->identity() +
                        "', found '" + record.library_identity + "'; entry ignored");
      continue;
    }
    if (const std::optional<std::string> denied = DenialOf(record.winner)) {
      refused.push_back(what + "field 'winner.kernel': expected a kernel that is right, found '" +
                        record.winner.kernel + "', denied in this process: " + *denied +
                        "; entry ignored");
      continue;
    }
    if (Result<std::unique_ptr<Plan>> plan = backend->Prepare(record.problem, record.winner);
        !plan.ok()) {
      refused.push_back(what + "field 'winner.kernel': expected a kernel of " +
                        record.winner.library + " that can run this problem, found '" +
                        record.winner.kernel + "' (" + std::string(plan.status().message()) +
                        "); entry ignored");
      continue;
    }
    ++taken;
    const Problem problem = record.problem;
    const std::lock_guard lock(known_mutex_);
    known_.insert_or_assign(problem,
                            Known{std::move(record), "loaded from " + std::string(origin), false});
    cache_.Erase(problem);  // what is handed over replaces what was learned
  }
  for (std::string& line : refused) {
    // A file that travels with a model has a section for each kind of machine: normal, if ours is
    // there.
    if (taken > 0 && line.ends_with("of another machine ignored")) {
      log_.Info(line);
    } else {
      log_.Warning(line);
    }
    Note(line);
    problems.push_back(std::move(line));
  }
  return taken;
}

size_t SessionState::SetResults(std::string_view json, std::string_view origin,
                                std::vector<std::string>& problems) {
  LoadReport report = ParseResults(json, origin, CpuFingerprint());
  const size_t taken =
      Take(std::move(report.knowledge.records), std::move(report.problems), origin, problems);
  if (taken > 0) dirty_.store(true);
  return taken;
}

Status SessionState::LoadCache(const std::string& path, std::vector<std::string>& problems) {
  size_t taken = 0;
  TUNABLEOP_RETURN_IF_ERROR(LoadRecords(path, problems, taken));
  if (taken > 0) dirty_.store(true);
  return Status::Ok();
}

Status SessionState::LoadOwnCache() {
  std::vector<std::string> problems;
  size_t taken = 0;
  return LoadRecords(options_.cache_path, problems, taken);
}

Status SessionState::LoadRecords(const std::string& path, std::vector<std::string>& problems,
                                 size_t& taken) {
  Result<LoadReport> loaded = LoadFile(path, CpuFingerprint());
  if (!loaded.ok()) return loaded.TakeStatus();
  LoadReport report = std::move(loaded).value();
  taken = Take(std::move(report.knowledge.records), std::move(report.problems), path, problems);
  log_.Info("cache '" + path + "': " + std::to_string(taken) + " entries loaded, " +
            std::to_string(problems.size()) + " problems");
  return Status::Ok();
}

std::vector<Record> SessionState::Records() const {
  std::vector<Record> records;
  std::unordered_set<Problem, ProblemHash> listed;
  const std::lock_guard lock(known_mutex_);
  for (const std::shared_ptr<const Entry>& entry : cache_.Entries()) {
    if (!entry->tuned || DenialOf(entry->record.winner)) continue;
    records.push_back(entry->record);
    listed.insert(entry->record.problem);
  }
  for (const auto& [problem, known] : known_) {
    if (!listed.contains(problem) && !DenialOf(known.record.winner))
      records.push_back(known.record);
  }
  return records;
}

std::string SessionState::GetResults() const {
  return FormatResults(Knowledge{.records = Records()}, CpuFingerprint());
}

Status SessionState::SaveCache(const std::string& path, int patience_ms) {
  return SaveFile(path, Knowledge{.records = Records()}, CpuFingerprint(), patience_ms);
}

void SessionState::SaveOwnCache(const Log& log, int patience_ms) noexcept {
  if (options_.cache_path.empty() || !dirty_.exchange(false)) return;
  last_save_ms_.store(SteadyMs());
  try {
    const Status status = SaveCache(options_.cache_path, patience_ms);
    if (status.ok()) return;
    dirty_.store(true);
    if (status.code() == StatusCode::kBusy && patience_ms == 0) return;  // later, then
    const std::string line =
        "cache '" + options_.cache_path + "' not saved: " + std::string(status.message());
    log.Warning(line);
    Note(line);
  } catch (...) {
    dirty_.store(true);
    try {
      log.Error("cache '" + options_.cache_path + "' not saved: out of memory");
    } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for the line either
    }
  }
}

}  // namespace tunableop
