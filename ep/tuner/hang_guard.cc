#include "tuner/hang_guard.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "tuner/operand_ranges.h"

namespace tunableop {
namespace {

constexpr int kMostAbandoned = 4;
constexpr std::align_val_t kAlignment{64};
constexpr size_t kMarginBytes = 512;  // before and after: a kernel on trial may write past the end

std::atomic<int> g_abandoned{0};

// All that the thread touches. Whoever of the two is last frees it.
struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Status status;
  std::shared_ptr<const Backend> backend;
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<char> a, b, bias, c;
  Operands operands;
};

}  // namespace

Result<HangGuard::Memory> HangGuard::Copy(const void* data, size_t bytes) {
  const size_t size = bytes + 2 * kMarginBytes;
  if (size > max_bytes_ - std::min(max_bytes_, used_bytes_)) {
    return Status(StatusCode::kOutOfMemory,
                  "may hang, and the copies to try it on exceed the ceiling for scratch memory");
  }
  char* memory = static_cast<char*>(::operator new(size, kAlignment, std::nothrow));
  if (memory == nullptr) {
    return Status(StatusCode::kOutOfMemory, "may hang, and there is no memory to try it apart");
  }
  used_bytes_ += size;
  std::memset(memory, 0, size);
  if (data != nullptr) std::memcpy(memory + kMarginBytes, data, bytes);
  return Memory(memory, [](char* p) { ::operator delete(p, kAlignment); });
}

Status HangGuard::Prepare() {
  if (g_abandoned.load() >= kMostAbandoned) {
    return {StatusCode::kBusy, "may hang, and " + std::to_string(kMostAbandoned) +
                                   " calls that did were abandoned in this process already"};
  }
  const OperandRanges ranges = RangesOf(problem_, operands_);
  const auto copy = [&](const Range& range, bool with_content, Memory& to) {
    if (to != nullptr || range.bytes == 0) return Status::Ok();
    Result<Memory> memory = Copy(with_content ? range.data : nullptr, range.bytes);
    if (!memory.ok()) return memory.TakeStatus();
    to = std::move(memory.value());
    return Status::Ok();
  };
  TUNABLEOP_RETURN_IF_ERROR(copy(ranges.a, true, a_));
  TUNABLEOP_RETURN_IF_ERROR(copy(ranges.b, true, b_));
  TUNABLEOP_RETURN_IF_ERROR(copy(ranges.bias, true, bias_));
  return copy(ranges.c, operands_.beta != 0.0F, c_);
}

Status HangGuard::Call(std::shared_ptr<const Backend> backend, std::shared_ptr<const Plan> plan,
                       bool& hung) {
  hung = false;
  const auto shared = std::make_shared<Shared>();
  shared->backend = std::move(backend);
  shared->plan = std::move(plan);
  shared->a = a_;
  shared->b = b_;
  shared->bias = bias_;
  shared->c = c_;
  shared->operands = operands_;
  const auto data = [](const Memory& memory) {
    return memory == nullptr ? nullptr : memory.get() + kMarginBytes;
  };
  shared->operands.a = data(a_);
  if (operands_.b != nullptr) shared->operands.b = data(b_);
  if (operands_.packed_b != nullptr) {
    shared->operands.packed_b = reinterpret_cast<const float*>(data(b_));
  }
  shared->operands.bias = data(bias_);
  shared->operands.c = data(c_);
  try {
    std::thread([shared] {
      SerialExecutor executor;
      Status status = shared->plan->Run(shared->operands, executor);
      const std::lock_guard lock(shared->mutex);
      shared->status = std::move(status);
      shared->done = true;
      shared->changed.notify_one();
    }).detach();
  } catch (const std::system_error& error) {
    return {StatusCode::kOutOfMemory,
            std::string("may hang, and no thread to try it: ") + error.what()};
  }
  std::unique_lock lock(shared->mutex);
  const auto patience =
      std::chrono::microseconds(static_cast<int64_t>(std::clamp(hang_ms_, 0.0, 1e9) * 1e3));
  if (shared->changed.wait_for(lock, patience, [&] { return shared->done; })) {
    return std::move(shared->status);
  }
  hung = true;
  g_abandoned.fetch_add(1);
  c_ = nullptr;  // his; the next one gets another
  return Status::Ok();
}

}  // namespace tunableop
