#include "provider/gpu/gpu_session.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "provider/ort_runtime.h"
#include "provider/per_process.h"

namespace tunableop {
namespace {

// One, as the type writes it.
constexpr std::array<uint64_t, 4> kOnes = {0x3F800000, 0x3C00, 0x3F80, 0x3FF0000000000000};

std::vector<std::byte> OnesOnHost(DataType type, int64_t count) {
  const size_t size = SizeOf(type);
  std::vector<std::byte> ones(static_cast<size_t>(count) * size);
  for (size_t i = 0; i < ones.size(); i += size) {
    std::memcpy(&ones[i], &kOnes[static_cast<size_t>(type)], size);  // little-endian, as the cards
  }
  return ones;
}

}  // namespace

Result<std::shared_ptr<GpuSession>> GpuSession::Create(Card& card, Graphs::Limits limits) {
  Result<std::shared_ptr<StreamQueues>> streams = StreamQueues::Create(card.device());
  if (!streams.ok()) return streams.TakeStatus();
  return std::make_shared<GpuSession>(card, std::move(streams).value(), limits);
}

GpuSession::GpuSession(Card& card, std::shared_ptr<StreamQueues> streams, Graphs::Limits limits)
    : card_(card),
      streams_(std::move(streams)),
      memory_(std::make_shared<MemoryPool>(card, MemoryPool::Kind::kDevice, streams_)),
      host_memory_(std::make_shared<MemoryPool>(card, MemoryPool::Kind::kHost, streams_)),
      graphs_(std::make_unique<Graphs>(limits, streams_, memory_, host_memory_)),
      forks_(Forks()) {}

void GpuSession::CountCall(bool ok) const noexcept {
  GraphRun* run = CurrentGraphRun(streams_.get());
  if (run == nullptr) return;
  ++run->kernels;
  if (!ok) run->failed = true;
}

Result<const DeviceQueue*> GpuSession::QueueOf(const OrtKernelContext* context) const {
  if (const GraphRun* run = CurrentGraphRun(streams_.get());
      run != nullptr && run->queue != nullptr) {
    return run->queue;
  }
  void* stream = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->KernelContext_GetGPUComputeStream(context, &stream));
  return streams_->Of(stream != nullptr ? stream : streams_->default_stream());
}

Result<const void*> GpuSession::Ones(DataType type, int64_t count, NativeStream stream) {
  std::atomic<const Constants*>& made = ones_[static_cast<size_t>(type)];
  const Constants* ones = made.load(std::memory_order_acquire);
  if (ones != nullptr && ones->count >= count) return ones->memory.data();
  const std::lock_guard lock(mutex_);
  ones = made.load(std::memory_order_acquire);
  if (ones != nullptr && ones->count >= count) return ones->memory.data();
  if (device().IsCapturing(stream)) {
    return Status(StatusCode::kNotSupported,
                  "a graph is being captured: run the model on these shapes once before");
  }
  constexpr int64_t kFewest = 4096;
  const auto more =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(count, kFewest))));
  const std::vector<std::byte> host = OnesOnHost(type, more);
  Result<DeviceBuffer> memory = DeviceBuffer::Create(card_.device(), host.size());
  if (!memory.ok() && memory.status().code() == StatusCode::kOutOfMemory && card_.TrimAll() > 0) {
    memory = DeviceBuffer::Create(card_.device(), host.size());
  }
  if (!memory.ok()) return memory.TakeStatus();
  TUNABLEOP_RETURN_IF_ERROR(device().Copy(memory.value().data(), host.data(), host.size(),
                                          CopyKind::kHostToDevice, streams_->own()));
  TUNABLEOP_RETURN_IF_ERROR(device().Synchronize(streams_->own()));  // for all streams
  // What was made before stays: kernels may be reading it.
  constants_.push_back(std::make_unique<Constants>(Constants{more, std::move(memory).value()}));
  made.store(constants_.back().get(), std::memory_order_release);
  return constants_.back()->memory.data();
}

void GpuSession::Close() noexcept {
  graphs_->Close();
  streams_->Close();
  memory_->Close();
  host_memory_->Close();
  const std::lock_guard lock(mutex_);
  const bool dead = device().lost() || forks_ != Forks();
  for (const std::unique_ptr<Constants>& constants : constants_) {
    if (dead) constants->memory.Abandon();
  }
  for (std::atomic<const Constants*>& ones : ones_) ones.store(nullptr);
  constants_.clear();
}

}  // namespace tunableop
