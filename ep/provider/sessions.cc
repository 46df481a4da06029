#include "provider/sessions.h"

#include <utility>

namespace tunableop {

void SessionNames::Name(std::string token, const std::shared_ptr<SessionState>& state) {
  const std::lock_guard lock(mutex_);
  std::erase_if(by_token_, [](const auto& item) { return item.second.expired(); });
  by_token_.insert_or_assign(std::move(token), state);
}

std::shared_ptr<SessionState> SessionNames::Find(const std::string& token) {
  const std::lock_guard lock(mutex_);
  const auto found = by_token_.find(token);
  return found == by_token_.end() ? nullptr : found->second.lock();
}

SessionNames& Sessions() {
  // Never destroyed: sessions may outlive static destruction at process exit.
  static auto& names = *new SessionNames;
  return names;
}

}  // namespace tunableop
