// How long measuring may go on, beside the limit for one problem: per session and per day.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "cache/knowledge.h"
#include "provider/gemm_node.h"

namespace tunableop {

// Days since 1970-01-01, UTC.
int64_t Today() noexcept;

// Thread-safe.
class TuningBudget {
 public:
  // Milliseconds; 0: without limit.
  TuningBudget(double session_ms, double day_ms) noexcept
      : session_ms_(session_ms), day_ms_(day_ms) {}

  void Spend(double ms) noexcept;
  // What the file says others spent.
  void Load(const SpentRecord& spent) noexcept;
  // Nothing: measuring may begin. Else which limit is reached.
  std::optional<Fallback> Exhausted() const noexcept;

  // What was spent since the last call, to be added to the file; given back when saving failed.
  SpentRecord TakeUnsaved() noexcept;
  void GiveBack(const SpentRecord& unsaved) noexcept;

 private:
  void TurnDay(int64_t day) const noexcept;

  const double session_ms_;
  const double day_ms_;
  mutable std::mutex mutex_;
  double session_spent_ = 0.0;
  mutable int64_t day_ = 0;
  mutable double day_spent_ = 0.0;  // by this session and, as far as loaded, by others
  mutable double unsaved_ = 0.0;
};

}  // namespace tunableop
