// The streams on which a session's work is queued on its card, each with its own workspace and its
// libraries' handles.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "gemm/device.h"
#include "gemm/device_memory.h"
#include "gemm/device_queue.h"
#include "gemm/status.h"

namespace tunableop {

// Thread-safe. Beside a stock GPU provider the streams are those that ONNX Runtime gives each run;
// alone, all runs of a session share the one stream that this owns.
//
// Which it is does not have to be known before a kernel runs: whoever learns of a stream that is
// not ours calls SawForeign, and from then on memory without a stream of its own is handed over
// between streams only after waiting (see MemoryPool).
class StreamQueues {
 public:
  static Result<std::shared_ptr<StreamQueues>> Create(std::shared_ptr<const Device> device);
  explicit StreamQueues(std::shared_ptr<const Device> device, DeviceStream own) noexcept;
  ~StreamQueues();
  StreamQueues(const StreamQueues&) = delete;
  StreamQueues& operator=(const StreamQueues&) = delete;

  const std::shared_ptr<const Device>& device() const noexcept { return device_; }
  NativeStream own() const noexcept { return own_.get(); }

  // The queue of `stream`. The first call for a stream allocates its workspace: 32 MiB, less where
  // the card is short of memory. Every other call takes no lock. Error: the session ended, or the
  // stream is being captured and was never used before.
  Result<const DeviceQueue*> Of(NativeStream stream);

  void SawForeign() noexcept { foreign_.store(true, std::memory_order_release); }
  bool has_foreign() const noexcept { return foreign_.load(std::memory_order_acquire); }
  // Kernels have run, and all of them on our own stream.
  bool alone() const noexcept { return !has_foreign() && own_used_.load(); }
  // Of a kernel without a stream of ONNX Runtime's. Where there are other streams, the null handle
  // is what another provider computes on: the legacy default stream.
  NativeStream default_stream() const noexcept { return has_foreign() ? nullptr : own(); }

  // Waits for our own stream, if kernels ever ran there, or for all others that were met; reports
  // what went wrong on them. kNotSupported: a graph is being captured on one of them.
  Status SynchronizeOwn() const;
  Status SynchronizeForeign() const;

  // The end of the session: waits for our own stream (not where the card is lost) and frees what
  // the queues hold. Streams that are not ours are not touched any more.
  void Close() noexcept;

 private:
  struct Node {
    DeviceQueue queue;
    Node* next;
  };

  const Node* Find(NativeStream stream) const noexcept;
  Status Wait(NativeStream stream) const;
  DeviceBuffer Workspace(size_t queues);

  const std::shared_ptr<const Device> device_;
  DeviceStream own_;
  const uint64_t forks_;  // of the process that made this: see Forks()
  std::atomic<bool> foreign_{false};
  std::atomic<bool> own_used_{false};
  // Grows at the head until Close; what is in it stays where it is. Read without the lock by the
  // session's own kernels only, which have ended when it is closed.
  std::atomic<Node*> head_{nullptr};
  mutable std::mutex mutex_;  // on making and closing
  size_t count_ = 0;
  bool closed_ = false;
};

}  // namespace tunableop
