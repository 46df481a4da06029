// Sessions by the token that a helper gave them, so that the control interface can find one.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "provider/session_state.h"

namespace tunableop {

// Thread-safe. Holds no session alive.
class SessionNames {
 public:
  void Name(std::string token, const std::shared_ptr<SessionState>& state);
  // nullptr: no such token, or the session is gone.
  std::shared_ptr<SessionState> Find(const std::string& token);

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<SessionState>> by_token_;
};

SessionNames& Sessions();

}  // namespace tunableop
