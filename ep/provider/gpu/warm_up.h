// What a card and its libraries need some time for when they are first used, done on a thread of
// its own: while ONNX Runtime reads a model, and makes a session of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace tunableop {

// Thread-safe.
class WarmUp {
 public:
  static constexpr size_t kMostSteps = 32;
  // `step` is called with the number of a step; what it throws, and what fails in it, is left to
  // whoever needs the same later. It must not wait for this object.
  explicit WarmUp(std::function<void(size_t)> step);
  // Waits for the step that is running, and drops the others; in a child of fork, for nothing.
  ~WarmUp();
  WarmUp(const WarmUp&) = delete;
  WarmUp& operator=(const WarmUp&) = delete;

  // Has step `i` < kMostSteps done some time soon, once in a process. Steps that wait are done in
  // the order of their numbers. Nothing happens in a child of fork, and where no thread can be had.
  void Ask(size_t i) noexcept;
  // Waits for the step that is running. None begins any more.
  void End() noexcept;

 private:
  void Work() noexcept;

  const std::function<void(size_t)> step_;
  const uint64_t forks_;
  std::mutex mutex_;
  uint32_t asked_ = 0;    // ever
  uint32_t waiting_ = 0;  // of them
  bool working_ = false;
  bool ended_ = false;
  std::unique_ptr<std::thread> thread_;
};

}  // namespace tunableop
