#include "provider/gpu/warm_up.h"

#include <bit>
#include <exception>
#include <system_error>
#include <utility>

#include "provider/per_process.h"

namespace tunableop {

WarmUp::WarmUp(std::function<void(size_t)> step) : step_(std::move(step)), forks_(Forks()) {}

WarmUp::~WarmUp() { End(); }

void WarmUp::End() noexcept {
  if (forks_ != Forks()) {
    // There is no such thread here to wait for.
    [[maybe_unused]] const std::thread* gone = thread_.release();
    return;
  }
  std::unique_ptr<std::thread> last;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    waiting_ = 0;
    last = std::move(thread_);
  }
  if (last != nullptr) last->join();
}

void WarmUp::Ask(size_t i) noexcept {
  if (forks_ != Forks()) return;
  std::unique_ptr<std::thread> last;  // one that is done with its work
  {
    const std::lock_guard lock(mutex_);
    const uint32_t bit = uint32_t{1} << i;
    if (ended_ || (asked_ & bit) != 0) return;
    asked_ |= bit;
    waiting_ |= bit;
    if (working_) return;
    last = std::move(thread_);
    try {
      thread_ = std::make_unique<std::thread>([this] { Work(); });
      working_ = true;
    } catch (const std::exception&) {  // no thread, no memory: it is done when it is needed
      waiting_ = 0;
    }
  }
  if (last != nullptr) last->join();
}

void WarmUp::Work() noexcept {
  while (true) {
    size_t step = 0;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_ == 0) {
        working_ = false;
        return;
      }
      step = static_cast<size_t>(std::countr_zero(waiting_));
      waiting_ &= waiting_ - 1;
    }
    try {
      step_(step);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): whoever needs it sees it
    }
  }
}

}  // namespace tunableop
