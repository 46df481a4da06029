#include "tuner/deny_list.h"

#include <map>
#include <mutex>
#include <tuple>

namespace tunableop {
namespace {

using Key = std::tuple<std::string, std::string, std::string>;  // library, kernel, identity

struct DenyList {
  std::mutex mutex;
  std::map<Key, Denial> denials;
};

// Never destroyed: sessions may outlive static destruction at process exit.
DenyList& List() {
  static auto& list = *new DenyList;
  return list;
}

}  // namespace

void Deny(const Candidate& candidate, const std::string& identity, const std::string& reason) {
  DenyList& list = List();
  const std::lock_guard lock(list.mutex);
  list.denials.try_emplace(Key(candidate.library, candidate.kernel, identity),
                           Denial{candidate, identity, reason});
  internal::denial_count.store(list.denials.size(), std::memory_order_release);
}

std::optional<std::string> DenialOf(const Candidate& candidate, const std::string& identity) {
  if (DenialCount() == 0) return std::nullopt;
  DenyList& list = List();
  const std::lock_guard lock(list.mutex);
  const auto found = list.denials.find(Key(candidate.library, candidate.kernel, identity));
  if (found == list.denials.end()) return std::nullopt;
  return found->second.reason;
}

std::optional<std::string> DenialOf(const Candidate& candidate) {
  if (DenialCount() == 0) return std::nullopt;
  DenyList& list = List();
  const std::lock_guard lock(list.mutex);
  const auto found = list.denials.lower_bound(Key(candidate.library, candidate.kernel, ""));
  if (found == list.denials.end()) return std::nullopt;
  const Candidate& denied = found->second.candidate;
  if (denied.library != candidate.library || denied.kernel != candidate.kernel) return std::nullopt;
  return found->second.reason;
}

std::vector<Denial> Denials() {
  DenyList& list = List();
  const std::lock_guard lock(list.mutex);
  std::vector<Denial> all;
  all.reserve(list.denials.size());
  for (const auto& [key, denial] : list.denials) all.push_back(denial);
  return all;
}

}  // namespace tunableop
