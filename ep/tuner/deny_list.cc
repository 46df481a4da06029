#include "tuner/deny_list.h"

#include <map>
#include <mutex>

namespace tunableop {
namespace {

struct DenyList {
  std::mutex mutex;
  std::map<std::string, std::string> reasons;  // by Candidate::FullName()
};

// Never destroyed: sessions may outlive static destruction at process exit.
DenyList& List() {
  static auto& list = *new DenyList;
  return list;
}

}  // namespace

void Deny(const Candidate& candidate, const std::string& reason) {
  DenyList& list = List();
  const std::lock_guard lock(list.mutex);
  list.reasons.emplace(candidate.FullName(), reason);
  internal::denial_count.store(list.reasons.size(), std::memory_order_release);
}

std::optional<std::string> DenialOf(const Candidate& candidate) {
  if (DenialCount() == 0) return std::nullopt;
  DenyList& list = List();
  const std::lock_guard lock(list.mutex);
  const auto found = list.reasons.find(candidate.FullName());
  if (found == list.reasons.end()) return std::nullopt;
  return found->second;
}

}  // namespace tunableop
