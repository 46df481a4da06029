// Sessions by the token that a helper gave them, so that the control interface can find one.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "provider/gpu/gpu_session.h"
#include "provider/session_state.h"

namespace tunableop {

// Thread-safe. Holds no session alive.
class SessionNames {
 public:
  // `gpu` is null on a CPU.
  void Name(std::string token, const std::shared_ptr<SessionState>& state,
            const std::shared_ptr<GpuSession>& gpu);
  // nullptr: no such token, or the session is gone.
  std::shared_ptr<SessionState> Find(const std::string& token);
  // nullptr: the same, or it is on a CPU.
  std::shared_ptr<GpuSession> FindGpu(const std::string& token);

 private:
  std::mutex mutex_;
  struct Named {
    std::weak_ptr<SessionState> state;
    std::weak_ptr<GpuSession> gpu;
  };
  std::map<std::string, Named> by_token_;
};

SessionNames& Sessions();

}  // namespace tunableop
