#include "provider/gpu/memory_pool.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "provider/gpu/cards.h"
#include "provider/gpu/graph_run.h"
#include "provider/per_process.h"

namespace tunableop {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
// Kept for the next request, though nobody uses it: as much as was ever in use, and this at least.
constexpr size_t kKeep = 256 * kMiB;

}  // namespace

size_t MemoryPool::RoundUp(size_t bytes) noexcept {
  if (bytes <= size_t{1} << kSmallestLog2) return size_t{1} << kSmallestLog2;
  const size_t step = std::max(std::bit_floor(bytes - 1) >> (bytes < kMiB ? 3 : kStepsLog2),
                               size_t{1} << kSmallestLog2);
  return (bytes + step - 1) / step * step;
}

size_t MemoryPool::BinOf(size_t rounded) noexcept {
  const size_t octave = std::max(std::bit_floor(rounded), size_t{1} << kSmallestLog2);
  // A block may be larger than the least of its bin: Take compares them.
  const size_t step = ((rounded - octave) << kStepsLog2) / octave;
  return ((std::bit_width(octave) - 1 - kSmallestLog2) << kStepsLog2) + step;
}

MemoryPool::MemoryPool(Card& card, Kind kind, std::shared_ptr<StreamQueues> streams)
    : card_(card), kind_(kind), streams_(std::move(streams)), forks_(Forks()) {
  card_.Add(this);
}

MemoryPool::~MemoryPool() {
  card_.Remove(this);
  if (dead()) return;
  for (auto& [address, block] : blocks_) ToCard(block.memory);
}

bool MemoryPool::dead() const noexcept { return forks_ != Forks() || streams_->device()->lost(); }

Result<void*> MemoryPool::FromCard(size_t bytes) const noexcept {
  const Device& device = *streams_->device();
  return kind_ == Kind::kDevice ? device.Allocate(bytes) : device.AllocateHost(bytes);
}

void MemoryPool::ToCard(void* memory) const noexcept {
  if (kind_ == Kind::kDevice) {
    streams_->device()->Free(memory);
  } else {
    streams_->device()->FreeHost(memory);
  }
}

MemoryPool::Bins& MemoryPool::BinsOf(NativeStream stream, uint32_t graph) {
  for (const std::unique_ptr<Bins>& bins : bins_) {
    if (bins->stream == stream && bins->graph == graph) return *bins;
  }
  return *bins_.emplace_back(std::make_unique<Bins>(stream, graph));
}

MemoryPool::Block* MemoryPool::Take(size_t rounded, NativeStream stream, uint32_t graph) {
  Bins& bins = BinsOf(stream, graph);
  const size_t first = BinOf(rounded);
  // Within an eighth of what was asked for: better than asking the card, which waits for all.
  const size_t last = std::min(BinOf(rounded + rounded / 8), kBins - 1);
  for (size_t bin = first; bin <= last; ++bin) {
    for (Block** at = &bins.first[bin]; *at != nullptr; at = &(*at)->next) {
      Block* block = *at;
      if (block->bytes < rounded) continue;
      *at = block->next;
      if (graph != 0) graphs_keep_ -= block->bytes;
      return block;
    }
  }
  return nullptr;
}

void MemoryPool::Put(Block* block) {
  Block*& first = BinsOf(block->stream, block->graph).first[BinOf(block->bytes)];
  block->next = first;
  first = block;
  if (block->graph != 0) graphs_keep_ += block->bytes;
}

void* MemoryPool::Serve(Block& block, size_t asked) noexcept {
  block.in_use = true;
  block.shared = false;
  ++stats_.allocations;
  stats_.in_use += block.bytes;
  stats_.most_in_use = std::max(stats_.most_in_use, stats_.in_use);
  stats_.largest = std::max<uint64_t>(stats_.largest, asked);
  return block.memory;
}

void* MemoryPool::Allocate(size_t bytes, NativeStream stream) noexcept {
  if (bytes == 0 || bytes > size_t{1} << (kLargestLog2 - 1)) return nullptr;
  const GraphRun* run = CurrentGraphRun(streams_.get());
  const uint32_t graph = run != nullptr ? run->memory : 0;
  // What is recorded on a run's stream is done on our own, and what is done there is waited for.
  if (run != nullptr && run->queue != nullptr && stream == run->queue->stream()) {
    stream = streams_->own();
  }
  if (stream != streams_->own()) streams_->SawForeign();
  // The handle of what is no stream of the card's: ONNX Runtime up to 1.28 asks for the memory of a
  // whole run that way. Which streams will use it is not known.
  if (stream == nullptr) stream = streams_->own();
  const size_t rounded = RoundUp(bytes);
  try {
    Block* block = nullptr;
    {
      const std::lock_guard lock(mutex_);
      block = Take(rounded, stream, graph);
      if (block != nullptr && !block->shared) return Serve(*block, bytes);
    }
    if (block != nullptr) {
      const bool waited = streams_->SynchronizeForeign().ok();
      const std::lock_guard lock(mutex_);
      if (waited) return Serve(*block, bytes);
      Put(block);
    }
    return AskCard(rounded, {bytes, stream, graph, false});
  } catch (const std::bad_alloc&) {
    return nullptr;  // of the host's memory
  }
}

void* MemoryPool::Reserve(size_t bytes) noexcept {
  if (bytes == 0) return nullptr;
  // Nothing that a graph uses may go back to the card.
  if (CurrentGraphRun(streams_.get()) != nullptr) return Allocate(bytes);
  constexpr size_t kAlignment = 256;
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  try {
    return AskCard(rounded, {bytes, streams_->own(), 0, true});
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void* MemoryPool::AskCard(size_t bytes, const Request& request) {
  Result<void*> memory =
      kind_ == Kind::kDevice && streams_->device()->IsCapturing(request.stream)
          ? Status(StatusCode::kNotSupported,
                   "a graph is being captured: run the model on these shapes once before")
          : FromCard(bytes);
  if (!memory.ok() && memory.status().code() == StatusCode::kOutOfMemory && card_.TrimAll() > 0) {
    memory = FromCard(bytes);
  }
  const std::lock_guard lock(mutex_);
  if (!memory.ok()) {
    Fail(bytes, std::string(memory.status().message()));
    return nullptr;
  }
  void* const got = memory.value();
  Block& block = blocks_[reinterpret_cast<uintptr_t>(got)];
  block = {got, bytes, request.stream, request.graph, false, request.passing, false, nullptr};
  ++stats_.reserves;
  stats_.held += bytes;
  stats_.most_held = std::max(stats_.most_held, stats_.held);
  return Serve(block, request.asked);
}

void MemoryPool::Fail(size_t bytes, const std::string& why) {
  ++stats_.failures;
  size_t free = 0;
  size_t total = 0;
  last_failure_ = std::to_string(bytes) + " bytes of " +
                  (kind_ == Kind::kDevice ? "the card's memory" : "page-locked memory");
  if (kind_ == Kind::kDevice && streams_->device()->MemoryInfo(free, total).ok()) {
    last_failure_ += " (" + std::to_string(free / kMiB) + " of " + std::to_string(total / kMiB) +
                     " MiB are free, this session uses " + std::to_string(stats_.in_use / kMiB) +
                     ")";
  }
  last_failure_ += ": " + why;
}

void MemoryPool::Free(void* memory) noexcept {
  if (memory == nullptr) return;
  std::vector<void*> returned;
  try {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(reinterpret_cast<uintptr_t>(memory));
    if (found == blocks_.end() || !found->second.in_use) return;
    Block& block = found->second;
    block.in_use = false;
    block.shared =
        kind_ == Kind::kDevice && block.stream == streams_->own() && streams_->has_foreign();
    stats_.in_use -= block.bytes;
    if (block.passing || closed_) {
      returned.push_back(memory);
      stats_.held -= block.bytes;
      blocks_.erase(found);
    } else {
      Put(&block);
      const size_t most = std::max<size_t>(kKeep, stats_.most_in_use);
      // While a graph is captured nothing may be freed; some later call does.
      if (stats_.held - stats_.in_use - graphs_keep_ > most &&
          !streams_->device()->IsCapturing(block.stream)) {
        returned = TakeKept(most / 2);
      }
    }
  } catch (const std::bad_alloc&) {  // of the host's: a list could not grow, and the block stays
    returned.clear();
  }
  if (dead()) return;
  for (void* block : returned) ToCard(block);
}

std::vector<void*> MemoryPool::TakeKept(size_t bytes) {
  std::vector<void*> taken;
  taken.reserve(blocks_.size());
  for (size_t bin = kBins; bin-- > 0;) {
    for (const std::unique_ptr<Bins>& bins : bins_) {
      if (bins->graph != 0) continue;
      while (Block* block = bins->first[bin]) {
        if (stats_.held - stats_.in_use - graphs_keep_ <= bytes) return taken;
        bins->first[bin] = block->next;
        stats_.held -= block->bytes;
        taken.push_back(block->memory);
        blocks_.erase(reinterpret_cast<uintptr_t>(block->memory));
      }
    }
  }
  return taken;
}

void MemoryPool::Disown(uint32_t graph) noexcept {
  if (graph == 0) return;
  std::vector<void*> returned;
  {
    const std::lock_guard lock(mutex_);
    // Those that are kept hang in its bins, which go.
    std::erase_if(bins_, [graph](const auto& bins) { return bins->graph == graph; });
    for (auto at = blocks_.begin(); at != blocks_.end();) {
      Block& block = at->second;
      if (block.graph != graph) {
        ++at;
        continue;
      }
      block.graph = 0;
      if (block.in_use) {
        ++at;
        continue;
      }
      graphs_keep_ -= block.bytes;
      stats_.held -= block.bytes;
      try {
        returned.push_back(block.memory);
      } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): lost to this process
      }
      at = blocks_.erase(at);
    }
  }
  if (dead()) return;
  for (void* block : returned) ToCard(block);
}

size_t MemoryPool::BytesOf(uint32_t graph) const noexcept {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const auto& [address, block] : blocks_) bytes += block.graph == graph ? block.bytes : 0;
  return bytes;
}

bool MemoryPool::OrderOf(const void* memory, NativeStream& stream, Status& status) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const auto address = reinterpret_cast<uintptr_t>(memory);
    const auto found = blocks_.lower_bound(address);  // the nearest that begins before or there
    if (found == blocks_.end() || address >= found->first + found->second.bytes) return false;
    stream = closed_ ? streams_->own() : found->second.stream;
  }
  if (stream == streams_->own() && streams_->has_foreign()) status = streams_->SynchronizeForeign();
  return true;
}

size_t MemoryPool::Trim() noexcept {
  std::vector<void*> taken;
  size_t bytes = 0;
  try {
    const std::lock_guard lock(mutex_);
    bytes = stats_.held;
    taken = TakeKept(0);
    bytes -= stats_.held;
  } catch (const std::bad_alloc&) {  // as in Free
    bytes = 0;
  }
  if (!dead()) {
    for (void* block : taken) ToCard(block);
  }
  return bytes;
}

void MemoryPool::Close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  Trim();
}

MemoryPool::Stats MemoryPool::stats() const noexcept {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::string MemoryPool::LastFailure() const {
  const std::lock_guard lock(mutex_);
  return last_failure_;
}

}  // namespace tunableop
