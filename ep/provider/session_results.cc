// SessionState: what was learned, coming in and going out.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <unordered_set>
#include <utility>

#include "cache/file_store.h"
#include "provider/session_state.h"
#include "provider/steady_ms.h"
#include "tuner/deny_list.h"

namespace tunableop {

Problem RangeKey(const Problem& problem) noexcept {
  Problem key = WithoutM(problem);
  key.m = BucketOf(problem.m).high;
  return key;
}

std::string SessionState::WhyRefused(const Record& record, std::string& stale) const {
  const std::shared_ptr<const Backend> backend = target_.Find(record.winner.library);
  if (backend == nullptr) {
    return "field 'winner.library': expected a library that this process has, found '" +
           record.winner.library + "'; entry ignored";
  }
  if (backend->identity() != record.library_identity) {
    stale = "field 'library_identity': expected '" + backend->identity() + "', found '" +
            record.library_identity + "'";
    // In the background it is measured again while it serves.
    if (mode() != TuningMode::kBackground) return stale + "; entry ignored";
  }
  if (const std::optional<std::string> denied = DenialOf(record.winner)) {
    return "field 'winner.kernel': expected a kernel that is right, found '" +
           record.winner.kernel + "', denied in this process: " + *denied + "; entry ignored";
  }
  if (Result<std::unique_ptr<Plan>> plan = backend->Prepare(record.problem, record.winner);
      !plan.ok()) {
    return "field 'winner.kernel': expected a kernel of " + record.winner.library +
           " that can run this problem, found '" + record.winner.kernel + "' (" +
           std::string(plan.status().message()) + "); entry ignored";
  }
  return {};
}

size_t SessionState::Take(Knowledge knowledge, std::vector<std::string> refused,
                          std::string_view origin, std::vector<std::string>& problems) {
  TakeDenied(std::move(knowledge.denied));
  size_t taken = 0;
  const size_t forms = TakeForms(std::move(knowledge.forms), origin, refused);
  for (Record& record : knowledge.records) {
    std::string stale;
    if (const std::string why = WhyRefused(record, stale); !why.empty()) {
      refused.push_back(std::string(origin) + ": entry (" + ToString(record.problem) + ", " +
                        record.winner.FullName() + "): " + why);
      continue;
    }
    ++taken;
    const Problem problem = record.problem;
    std::string why = "loaded from " + std::string(origin);
    const std::lock_guard lock(known_mutex_);
    if (stale.empty() && record.winner_ms > 0.0 && record.budget_ms == 0.0) {
      neighbours_.Put(record);
    }
    if (record.m_low > 0) {
      ranges_.insert_or_assign(RangeKey(problem),
                               Known{std::move(record), std::move(why), false, std::move(stale)});
      continue;
    }
    known_.insert_or_assign(problem,
                            Known{std::move(record), std::move(why), false, std::move(stale)});
    cache_.Erase(problem);  // what is handed over replaces what was learned
  }
  {
    const std::lock_guard lock(known_mutex_);
    for (NodeRecord& node : knowledge.nodes) {
      std::erase_if(nodes_known_, [&](const NodeRecord& n) {
        return n.op == node.op && n.name == node.name && n.k == node.k && n.n == node.n;
      });
      nodes_known_.push_back(std::move(node));
    }
    for (const SeenRecord& seen : knowledge.seen) {
      uint64_t& uses = seen_[seen.problem];
      uses = std::max(uses, seen.uses);
    }
  }
  if (taken + forms > 0) choice_changes_.fetch_add(1);
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
  return taken + forms;
}

size_t SessionState::SetResults(std::string_view json, std::string_view origin,
                                std::vector<std::string>& problems) {
  LoadReport report = ParseResults(json, origin, target_.fingerprint());
  const size_t taken =
      Take(std::move(report.knowledge), std::move(report.problems), origin, problems);
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
  Status status = LoadRecords(options_.cache_path, problems, taken);
  // After what the file says of earlier deaths.
  LearnOfDeaths();
  if (dirty()) SaveOwnCache(log_, /*patience_ms=*/1000);
  return status;
}

Status SessionState::LoadRecords(const std::string& path, std::vector<std::string>& problems,
                                 size_t& taken) {
  Result<LoadReport> loaded = LoadFile(path, target_.fingerprint());
  if (!loaded.ok()) return loaded.TakeStatus();
  LoadReport report = std::move(loaded).value();
  if (path == options_.cache_path) budget_.Load(report.knowledge.spent);
  taken = Take(std::move(report.knowledge), std::move(report.problems), path, problems);
  log_.Info("cache '" + path + "': " + std::to_string(taken) + " entries loaded, " +
            std::to_string(problems.size()) + " problems");
  return Status::Ok();
}

std::unordered_map<uint64_t, uint64_t> SessionState::UsesByHash() const {
  std::unordered_map<uint64_t, uint64_t> uses;
  const std::lock_guard lock(report_mutex_);
  for (const std::shared_ptr<GemmNode>& node : nodes_) {
    for (const NodeCounters::Use& use : node->counters.uses()) uses[use.hash] += use.count;
  }
  return uses;
}

std::vector<Record> SessionState::Records() const {
  const std::unordered_map<uint64_t, uint64_t> uses = UsesByHash();
  std::vector<Record> records;
  std::unordered_set<Problem, ProblemHash> listed;
  const auto add = [&](Record record) {
    if (const auto found = uses.find(Hash(record.problem)); found != uses.end()) {
      record.uses += found->second;
    }
    records.push_back(std::move(record));
  };
  const std::lock_guard lock(known_mutex_);
  for (const std::shared_ptr<const Entry>& entry : cache_.Entries()) {
    if (!entry->tuned || DenialOf(entry->record.winner)) continue;
    listed.insert(entry->record.problem);
    // The choice of a range is kept as that, once.
    if (entry->record.m_low > 0) continue;
    add(entry->record);
  }
  for (const auto& [problem, known] : known_) {
    if (!listed.contains(problem) && !DenialOf(known.record.winner)) add(known.record);
  }
  for (const auto& [key, known] : ranges_) {
    if (!DenialOf(known.record.winner)) records.push_back(known.record);
  }
  return records;
}

std::vector<SeenRecord> SessionState::SeenRecords() const {
  std::unordered_map<Problem, uint64_t, ProblemHash> seen;
  const std::lock_guard lock(known_mutex_);
  seen = seen_;
  if (mode() == TuningMode::kRecord) {
    for (const std::shared_ptr<const Entry>& entry : cache_.Entries()) {
      if (!entry->tuned) seen[entry->record.problem] += entry->notes.uses.load();
    }
  }
  std::vector<SeenRecord> records;
  records.reserve(seen.size());
  for (const auto& [problem, uses] : seen) records.push_back({problem, uses});
  return records;
}

Knowledge SessionState::Learned() const {
  Knowledge knowledge;
  knowledge.records = Records();
  knowledge.nodes = NodeRecords(knowledge.records);
  {
    // What was loaded of other nodes (left to the stock provider since, or of other models) stays.
    const std::lock_guard lock(known_mutex_);
    for (const NodeRecord& node : nodes_known_) {
      const bool again =
          std::any_of(knowledge.nodes.begin(), knowledge.nodes.end(), [&](const NodeRecord& n) {
            return n.op == node.op && n.name == node.name && n.k == node.k && n.n == node.n;
          });
      if (!again) knowledge.nodes.push_back(node);
    }
  }
  knowledge.forms = forms_.Records();
  knowledge.seen = SeenRecords();
  knowledge.denied = DeniedRecords();
  return knowledge;
}

std::string SessionState::GetResults() const {
  return FormatResults(Learned(), target_.fingerprint());
}

Status SessionState::SaveCache(const std::string& path, int patience_ms) {
  Knowledge knowledge = Learned();
  const bool own = path == options_.cache_path;
  if (own) knowledge.spent = budget_.TakeUnsaved();
  Status status = SaveFile(path, knowledge, target_.fingerprint(), patience_ms);
  if (own && !status.ok()) budget_.GiveBack(knowledge.spent);
  return status;
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
