#include "provider/background.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

namespace tunableop {
namespace {

constexpr auto kLookInterval = std::chrono::milliseconds(500);

}  // namespace

size_t BackgroundTuner::room() const {
  const std::lock_guard lock(mutex_);
  return max_bytes_ - std::min(max_bytes_, bytes_);
}

bool BackgroundTuner::Offer(PendingTuning pending) noexcept {
  // First: what waits without a thread would wait for ever.
  if (!Start()) return false;
  try {
    const std::lock_guard lock(mutex_);
    if (stop_.load() || bytes_ + pending.operands.bytes() > max_bytes_) return false;
    const bool there = std::any_of(queue_.begin(), queue_.end(), [&](const PendingTuning& p) {
      return p.problem == pending.problem;
    });
    if (there) return false;
    const size_t bytes = pending.operands.bytes();
    queue_.push_back(std::move(pending));
    bytes_ += bytes;
  } catch (const std::bad_alloc&) {
    return false;
  }
  wake_.notify_one();
  return true;
}

size_t BackgroundTuner::size() const {
  const std::lock_guard lock(mutex_);
  return queue_.size() + (at_work_ ? 1 : 0);
}

std::optional<PendingTuning> BackgroundTuner::Take() {
  const std::lock_guard lock(mutex_);
  return TakeLocked();
}

std::optional<PendingTuning> BackgroundTuner::TakeLocked() {
  const auto best = std::max_element(
      queue_.begin(), queue_.end(),
      [](const PendingTuning& a, const PendingTuning& b) { return a.worth_ms < b.worth_ms; });
  if (best == queue_.end()) return std::nullopt;
  std::optional<PendingTuning> taken(std::move(*best));
  bytes_ -= std::min(bytes_, taken->operands.bytes());
  queue_.erase(best);
  return taken;
}

void BackgroundTuner::Clear() {
  const std::lock_guard lock(mutex_);
  queue_.clear();
  bytes_ = 0;
}

bool BackgroundTuner::Start() noexcept {
  const std::lock_guard lock(mutex_);
  if (stop_.load()) return false;
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread([this] { Loop(); });
  } catch (...) {  // no thread, or no memory for one
    return false;
  }
  return true;
}

void BackgroundTuner::Pause(bool paused) {
  {
    const std::lock_guard lock(mutex_);
    paused_ = paused;
  }
  wake_.notify_one();
}

void BackgroundTuner::Stop() noexcept {
  std::thread ending;
  {
    const std::lock_guard lock(mutex_);
    stop_.store(true);
    ending = std::move(thread_);
  }
  wake_.notify_all();
  if (ending.joinable()) ending.join();
}

// Takes the next one; until this ends it counts among those that wait.
struct BackgroundTuner::AtWork {
  explicit AtWork(BackgroundTuner& tuner) : tuner_(tuner) {
    const std::lock_guard lock(tuner_.mutex_);
    if (!tuner_.paused_) next = tuner_.TakeLocked();
    tuner_.at_work_ = next.has_value();
  }
  ~AtWork() {
    const std::lock_guard lock(tuner_.mutex_);
    tuner_.at_work_ = false;
  }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

  std::optional<PendingTuning> next;

 private:
  BackgroundTuner& tuner_;
};

void BackgroundTuner::Loop() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point rest_until = Clock::now();
  while (!stop_.load()) {
    {
      std::unique_lock lock(mutex_);
      const auto ready = [&] {
        return stop_.load() || (!paused_ && !queue_.empty() && Clock::now() >= rest_until);
      };
      const auto until = std::min(Clock::now() + kLookInterval,
                                  queue_.empty() || paused_ || rest_until <= Clock::now()
                                      ? Clock::now() + kLookInterval
                                      : rest_until);
      wake_.wait_until(lock, until, ready);
    }
    if (stop_.load()) return;
    // Measuring and looking may fail for want of memory: then later.
    try {
      work_.look();
      if (Clock::now() < rest_until) continue;
      AtWork at_work(*this);
      if (!at_work.next) continue;
      const double ms = work_.measure(std::move(*at_work.next), stop_);
      const std::chrono::duration<double, std::milli> rest(ms * (1.0 / share_ - 1.0));
      rest_until = Clock::now() + std::chrono::duration_cast<Clock::duration>(rest);
    } catch (...) {
      rest_until = Clock::now() + std::chrono::seconds(1);
    }
  }
}

}  // namespace tunableop
