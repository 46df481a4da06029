// What a forked child must not share with its parent: locks that a thread of the parent may hold,
// threads that the child does not have, and what those were changing at that moment.
#pragma once

#include <atomic>
#include <cstdint>

namespace tunableop {

// Forks between the process that loaded this library and this one.
uint64_t Forks() noexcept;

// A T for each process: a child finds a fresh one. The parent's is left as it is, for destroying it
// would wait for threads that are not there. Thread-safe; T is made by its default constructor.
template <typename T>
class PerProcess {
 public:
  PerProcess() : mine_(new Copy{Forks(), {}}) {}
  ~PerProcess() {
    Copy* mine = mine_.load();
    if (mine->forks == Forks()) delete mine;
  }
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  // Throws std::bad_alloc, in a child and at its first use there only.
  T& operator*() const {
    Copy* mine = mine_.load(std::memory_order_acquire);
    if (mine->forks == Forks()) return mine->value;
    auto* fresh = new Copy{Forks(), {}};
    if (mine_.compare_exchange_strong(mine, fresh)) return fresh->value;
    delete fresh;
    return mine->value;
  }
  T* operator->() const { return &**this; }

 private:
  struct Copy {
    uint64_t forks;
    T value;
  };
  mutable std::atomic<Copy*> mine_;
};

}  // namespace tunableop
