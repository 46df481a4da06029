#include "provider/sessions.h"

#include <utility>

namespace tunableop {

void SessionNames::Name(std::string token, const std::shared_ptr<SessionState>& state,
                        const std::shared_ptr<GpuSession>& gpu) {
  const std::lock_guard lock(mutex_);
  std::erase_if(by_token_, [](const auto& item) { return item.second.state.expired(); });
  by_token_.insert_or_assign(std::move(token), Named{state, gpu});
}

std::shared_ptr<SessionState> SessionNames::Find(const std::string& token) {
  const std::lock_guard lock(mutex_);
  const auto found = by_token_.find(token);
  return found == by_token_.end() ? nullptr : found->second.state.lock();
}

std::shared_ptr<GpuSession> SessionNames::FindGpu(const std::string& token) {
  const std::lock_guard lock(mutex_);
  const auto found = by_token_.find(token);
  return found == by_token_.end() ? nullptr : found->second.gpu.lock();
}

SessionNames& Sessions() {
  // Never destroyed: sessions may outlive static destruction at process exit.
  static auto& names = *new SessionNames;
  return names;
}

}  // namespace tunableop
