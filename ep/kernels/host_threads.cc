#include "kernels/host_threads.h"

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/host_module.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace tunableop::device {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;

// So many of its threads wait, and how often all of them have.
struct Gate {
  uint32_t arrived = 0;
  uint32_t opened = 0;
};

// What a sanitizer must be told about changing stacks.
struct Fiber {
  ucontext_t context{};
  std::unique_ptr<std::byte[]> stack;
  bool done = false;
  uint64_t slot = 0;
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
#elif defined(__SANITIZE_THREAD__)
  void* tsan = nullptr;
#endif
};

class Block final : public HostThreads {
 public:
  Block(HostKernel kernel, const void* args, HostGrid grid, HostBlock index, uint32_t threads)
      : kernel_(kernel),
        args_(args),
        grid_(grid),
        index_(index),
        fibers_(threads),
        gates_(threads) {}

  void Run() {
    for (Fiber& fiber : fibers_) {
      fiber.stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStackBytes;
      fiber.context.uc_link = nullptr;
      const auto self = reinterpret_cast<uintptr_t>(this);
      makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Enter), 2,
                  static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
#if defined(__SANITIZE_THREAD__)
      fiber.tsan = __tsan_create_fiber(0);
#endif
    }
#if defined(__SANITIZE_THREAD__)
    main_.tsan = __tsan_get_current_fiber();
#endif
    for (size_t left = fibers_.size(); left > 0;) {
      moved_ = false;
      for (current_ = 0; current_ < fibers_.size(); ++current_) {
        if (fibers_[current_].done) continue;
        host_position = {grid_, index_, static_cast<uint32_t>(current_),
                         static_cast<uint32_t>(fibers_.size()), this};
        Switch(main_, fibers_[current_]);
        if (fibers_[current_].done) --left;
      }
      if (!moved_) {
        std::fputs("kernels: threads of a block wait for others that never come\n", stderr);
        std::abort();
      }
    }
    host_position = {};
#if defined(__SANITIZE_THREAD__)
    for (Fiber& fiber : fibers_) __tsan_destroy_fiber(fiber.tsan);
#endif
  }

  void Sync() override { Pass(all_, static_cast<uint32_t>(fibers_.size())); }

  void Exchange(void* value, size_t bytes, uint32_t offset, uint32_t lanes) override {
    const size_t self = current_;
    Gate& gate = gates_[self / lanes];
    std::memcpy(&fibers_[self].slot, value, bytes);
    Pass(gate, lanes);
    std::memcpy(value, &fibers_[self ^ offset].slot, bytes);
    Pass(gate, lanes);  // before anybody's slot is written again
  }

 private:
  static void Enter(unsigned high, unsigned low) {
    auto* const block = reinterpret_cast<Block*>((static_cast<uintptr_t>(high) << 32) |
                                                 static_cast<uintptr_t>(low));
    Fiber& self = block->fibers_[block->current_];
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &block->main_stack_, &block->main_bytes_);
#endif
    block->kernel_(block->args_, block->grid_, block->index_);
    self.done = true;
    block->moved_ = true;
    block->Switch(self, block->main_);
  }

  void Pass(Gate& gate, uint32_t of) {
    const uint32_t before = gate.opened;
    if (++gate.arrived == of) {
      gate.arrived = 0;
      ++gate.opened;
      moved_ = true;
      return;
    }
    Fiber& self = fibers_[current_];
    while (gate.opened == before) Switch(self, main_);
    moved_ = true;
  }

  void Switch(Fiber& from, Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
    const bool back = &to == &main_;
    __sanitizer_start_switch_fiber(from.done ? nullptr : &from.fake,
                                   back ? main_stack_ : to.stack.get(),
                                   back ? main_bytes_ : kStackBytes);
#elif defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(to.tsan, 0);
#endif
    swapcontext(&from.context, &to.context);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(from.fake, nullptr, nullptr);
#endif
  }

  HostKernel kernel_;
  const void* args_;
  HostGrid grid_;
  HostBlock index_;
  std::vector<Fiber> fibers_;
  std::vector<Gate> gates_;  // of threads in a row
  Gate all_;
  Fiber main_;
  size_t current_ = 0;
  bool moved_ = false;
#if defined(__SANITIZE_ADDRESS__)
  const void* main_stack_ = nullptr;
  size_t main_bytes_ = 0;
#endif
};

}  // namespace

void RunHostBlock(HostKernel kernel, const void* args, HostGrid grid, HostBlock index,
                  uint32_t threads) {
  if (threads <= 1) {
    kernel(args, grid, index);
  } else {
    Block(kernel, args, grid, index, threads).Run();
  }
}

}  // namespace tunableop::device
