#include "provider/budget.h"

#include <chrono>

namespace tunableop {

int64_t Today() noexcept {
  return std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now())
      .time_since_epoch()
      .count();
}

void TuningBudget::TurnDay(int64_t day) const noexcept {
  if (day == day_) return;
  day_ = day;
  day_spent_ = 0.0;
  unsaved_ = 0.0;
}

void TuningBudget::Spend(double ms) noexcept {
  const std::lock_guard lock(mutex_);
  TurnDay(Today());
  session_spent_ += ms;
  day_spent_ += ms;
  unsaved_ += ms;
}

void TuningBudget::Load(const SpentRecord& spent) noexcept {
  const std::lock_guard lock(mutex_);
  TurnDay(Today());
  if (spent.day == day_) day_spent_ = spent.ms + unsaved_;
}

std::optional<Fallback> TuningBudget::Exhausted() const noexcept {
  const std::lock_guard lock(mutex_);
  TurnDay(Today());
  if (session_ms_ > 0.0 && session_spent_ >= session_ms_) return Fallback::kSessionBudget;
  if (day_ms_ > 0.0 && day_spent_ >= day_ms_) return Fallback::kDayBudget;
  return std::nullopt;
}

SpentRecord TuningBudget::TakeUnsaved() noexcept {
  const std::lock_guard lock(mutex_);
  TurnDay(Today());
  const SpentRecord taken{day_, unsaved_};
  unsaved_ = 0.0;
  return taken;
}

void TuningBudget::GiveBack(const SpentRecord& unsaved) noexcept {
  const std::lock_guard lock(mutex_);
  TurnDay(Today());
  if (unsaved.day == day_) unsaved_ += unsaved.ms;
}

}  // namespace tunableop
