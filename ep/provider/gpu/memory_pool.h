// A card's memory for one session: what was freed is kept for the next that asks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gemm/device.h"
#include "gemm/status.h"
#include "provider/gpu/queues.h"

namespace tunableop {

class Card;

// The order of work on memory. ONNX Runtime frees a tensor on the host as soon as the last kernel
// that uses it is queued, and not when the card is done with it. So a freed block only goes to who
// uses it on the same stream, behind what is queued there. Blocks that were asked for without a
// stream belong to the session's own stream, where all copies without a stream run too. Where
// another provider's streams are about (StreamQueues::has_foreign), kernels may use those as well:
// they are waited for before such a block is given away again, or copied to or from.
//
// What a run for a graph takes (GraphRun::memory) belongs to the graph from then on: free or not,
// it goes to nobody else, nor back to the card, until Disown. The graph writes to it whenever it is
// replayed.
//
// Thread-safe. Lives as long as a tensor made from it, which may be longer than the session.
class MemoryPool {
 public:
  enum class Kind : uint8_t {
    kDevice,
    kHost,  // page-locked: copies use it in the order of streams as well
  };
  struct Stats {
    uint64_t allocations = 0;  // asked for in all
    uint64_t reserves = 0;     // asked of the card
    uint64_t in_use = 0;       // bytes
    uint64_t most_in_use = 0;  // bytes
    uint64_t held = 0;         // bytes, in use and kept
    uint64_t most_held = 0;    // bytes
    uint64_t largest = 0;      // bytes, of one request
    uint64_t failures = 0;
  };

  // `card` is a process's and outlives this.
  MemoryPool(Card& card, Kind kind, std::shared_ptr<StreamQueues> streams);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Null: the card has no more; LastFailure() says how much was asked for and free. Without a
  // stream: streams.own().
  void* Allocate(size_t bytes, NativeStream stream) noexcept;
  void* Allocate(size_t bytes) noexcept { return Allocate(bytes, streams_->own()); }
  // The same without keeping room for a better fit next time: for what stays.
  void* Reserve(size_t bytes) noexcept;
  void Free(void* memory) noexcept;

  // Whether `memory` points into a block of this; if so, the stream in whose order it may be
  // touched now. Waits for other streams where it has to.
  bool OrderOf(const void* memory, NativeStream& stream, Status& status) noexcept;

  // What belongs to this graph goes back to the card, or does so when it is freed.
  void Disown(uint32_t graph) noexcept;
  size_t BytesOf(uint32_t graph) const noexcept;

  // Gives what is kept back to the card; returns how many bytes.
  size_t Trim() noexcept;
  // The session has ended: nothing is kept any more.
  void Close() noexcept;

  Stats stats() const noexcept;
  std::string LastFailure() const;
  const std::shared_ptr<StreamQueues>& streams() const noexcept { return streams_; }

  // What a request of so many bytes takes: at most an eighth more, above 1 MiB a 32nd.
  static size_t RoundUp(size_t bytes) noexcept;

 private:
  struct Block {
    void* memory;
    size_t bytes;
    NativeStream stream;  // behind whose work it may be used again
    uint32_t graph;       // that it belongs to; 0: none
    bool in_use;
    bool passing;  // goes back to the card as soon as it is free
    bool shared;   // freed while streams other than its own may still use it
    Block* next;   // in its bin, when kept
  };
  // 256 bytes are the smallest block; 2^48 is more than any card has.
  static constexpr size_t kSmallestLog2 = 8;
  static constexpr size_t kLargestLog2 = 48;
  static constexpr size_t kStepsLog2 = 5;
  static constexpr size_t kBins = (kLargestLog2 - kSmallestLog2) << kStepsLog2;
  struct Bins {
    Bins(NativeStream of, uint32_t whose) : stream(of), graph(whose) {}
    NativeStream stream;
    uint32_t graph;
    std::array<Block*, kBins> first{};
  };

  static size_t BinOf(size_t rounded) noexcept;
  // All but those that say otherwise: the caller holds the lock.
  Bins& BinsOf(NativeStream stream, uint32_t graph);
  Block* Take(size_t rounded, NativeStream stream, uint32_t graph);
  void Put(Block* block);
  void* Serve(Block& block, size_t asked) noexcept;
  void Fail(size_t bytes, const std::string& why);
  // Takes blocks out, the largest first, until no more than so many bytes are kept.
  std::vector<void*> TakeKept(size_t bytes);
  struct Request {
    size_t asked;
    NativeStream stream;
    uint32_t graph;
    bool passing;
  };
  void* AskCard(size_t bytes, const Request& request);  // without the lock
  Result<void*> FromCard(size_t bytes) const noexcept;  // anywhere
  void ToCard(void* memory) const noexcept;             // anywhere
  bool dead() const noexcept;                           // anywhere

  Card& card_;
  const Kind kind_;
  const std::shared_ptr<StreamQueues> streams_;
  const uint64_t forks_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Bins>> bins_;
  std::map<uintptr_t, Block, std::greater<>> blocks_;  // in use and kept, by address
  size_t graphs_keep_ = 0;                             // bytes that are kept and belong to graphs
  Stats stats_;
  std::string last_failure_;
  bool closed_ = false;
};

}  // namespace tunableop
