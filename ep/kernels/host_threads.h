// Several threads of one block on the host, in turn: one runs until it waits for others. So what
// the threads of a block do together is tested without a card. Memory that a block shares is the OS
// thread's own, which they all run on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tunableop::device {

class HostThreads {
 public:
  virtual ~HostThreads() = default;

  // The calling thread waits until all of them call this.
  virtual void Sync() = 0;
  // Copies `bytes` (at most 8) of the thread whose number differs in the bits of `offset` over
  // `value`. All of the `lanes` threads in a row that this one belongs to call this.
  virtual void Exchange(void* value, size_t bytes, uint32_t offset, uint32_t lanes) = 0;
};

}  // namespace tunableop::device
