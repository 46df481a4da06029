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
  const std::lock_guard lock(shared_->mutex);
  return max_bytes_ - std::min(max_bytes_, shared_->bytes);
}

bool BackgroundTuner::Offer(PendingTuning pending) noexcept {
  // First: what waits without a thread would wait for ever.
  if (!Start()) return false;
  try {
    const std::lock_guard lock(shared_->mutex);
    if (stop_.load() || shared_->bytes + pending.operands.bytes() > max_bytes_) return false;
    const bool there =
        std::any_of(shared_->queue.begin(), shared_->queue.end(),
                    [&](const PendingTuning& p) { return p.problem == pending.problem; });
    if (there) return false;
    const size_t bytes = pending.operands.bytes();
    shared_->queue.push_back(std::move(pending));
    shared_->bytes += bytes;
  } catch (const std::bad_alloc&) {
    return false;
  }
  shared_->wake.notify_one();
  return true;
}

size_t BackgroundTuner::size() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->queue.size() + (shared_->at_work ? 1 : 0);
}

std::optional<PendingTuning> BackgroundTuner::Take() {
  const std::lock_guard lock(shared_->mutex);
  return TakeLocked();
}

std::optional<PendingTuning> BackgroundTuner::TakeLocked() {
  const auto best = std::max_element(
      shared_->queue.begin(), shared_->queue.end(),
      [](const PendingTuning& a, const PendingTuning& b) { return a.worth_ms < b.worth_ms; });
  if (best == shared_->queue.end()) return std::nullopt;
  std::optional<PendingTuning> taken(std::move(*best));
  shared_->bytes -= std::min(shared_->bytes, taken->operands.bytes());
  shared_->queue.erase(best);
  return taken;
}

void BackgroundTuner::Clear() {
  const std::lock_guard lock(shared_->mutex);
  shared_->queue.clear();
  shared_->bytes = 0;
}

bool BackgroundTuner::Start() noexcept {
  const std::lock_guard lock(shared_->mutex);
  if (stop_.load()) return false;
  if (shared_->thread.joinable()) return true;
  try {
    shared_->thread = std::thread([this] { Loop(); });
  } catch (...) {  // no thread, or no memory for one
    return false;
  }
  return true;
}

void BackgroundTuner::Pause(bool paused) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->paused = paused;
  }
  shared_->wake.notify_one();
}

void BackgroundTuner::Stop() noexcept {
  std::thread ending;
  {
    const std::lock_guard lock(shared_->mutex);
    stop_.store(true);
    ending = std::move(shared_->thread);
  }
  shared_->wake.notify_all();
  if (ending.joinable()) ending.join();
}

// Takes the next one; until this ends it counts among those that wait.
struct BackgroundTuner::AtWork {
  explicit AtWork(BackgroundTuner& tuner) : tuner_(tuner) {
    const std::lock_guard lock(tuner_.shared_->mutex);
    if (!tuner_.shared_->paused) next = tuner_.TakeLocked();
    tuner_.shared_->at_work = next.has_value();
  }
  ~AtWork() {
    const std::lock_guard lock(tuner_.shared_->mutex);
    tuner_.shared_->at_work = false;
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
      std::unique_lock lock(shared_->mutex);
      const auto ready = [&] {
        return stop_.load() ||
               (!shared_->paused && !shared_->queue.empty() && Clock::now() >= rest_until);
      };
      const auto until =
          std::min(Clock::now() + kLookInterval,
                   shared_->queue.empty() || shared_->paused || rest_until <= Clock::now()
                       ? Clock::now() + kLookInterval
                       : rest_until);
      shared_->wake.wait_until(lock, until, ready);
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
