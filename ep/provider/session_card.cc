// SessionState: what only sessions on a card do.
#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "gemm/device_memory.h"
#include "gemm/device_queue.h"
#include "provider/processors.h"
#include "provider/session_state.h"
#include "tuner/deny_list.h"
#include "tuner/device_copies.h"
#include "tuner/device_tuner.h"
#include "tuner/host_copies.h"
#include "tuner/measure_pool.h"
#include "tuner/operand_ranges.h"

namespace tunableop {
namespace {

// That check answers or transpose weights on the host.
constexpr int kMostHostThreads = 8;
// Of the card's memory, for transposed copies of weights.
constexpr size_t kTransposedShare = 4;
// For a kernel that is measured in the background, beside the streams of runs.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

// On the host, for libraries that cannot do it on the card: once for each weight.
Status TransposeThroughHost(const Problem& problem, const Operands& operands, void* out,
                            const DeviceQueue& queue, Executor& host) {
  const Device& device = queue.device();
  const Range b = RangesOf(problem, operands).b;
  const size_t bytes = BytesOfTransposedB(problem);
  const auto stored = std::unique_ptr<char[]>(new (std::nothrow) char[b.bytes]);
  const auto transposed = std::unique_ptr<char[]>(new (std::nothrow) char[bytes]);
  if (stored == nullptr || transposed == nullptr) {
    return {StatusCode::kOutOfMemory, "no memory on the host to transpose it in"};
  }
  TUNABLEOP_RETURN_IF_ERROR(
      device.Copy(stored.get(), b.data, b.bytes, CopyKind::kDeviceToHost, queue.stream()));
  TUNABLEOP_RETURN_IF_ERROR(device.Synchronize(queue.stream()));
  TransposeB(problem, stored.get(), host, transposed.get());
  TUNABLEOP_RETURN_IF_ERROR(
      device.Copy(out, transposed.get(), bytes, CopyKind::kHostToDevice, queue.stream()));
  return device.Synchronize(queue.stream());  // before its source goes
}

// Calls use(host), with threads to share host work among where the system has them.
template <typename Function>
auto WithHostThreads(const Function& use) {
  const auto processors = static_cast<int>(ProcessorsOfProcess().size());
  std::optional<MeasurePool> pool;
  try {
    pool.emplace(std::clamp(processors / 2, 1, kMostHostThreads));
  } catch (const std::system_error&) {  // this thread does it alone
    SerialExecutor alone;
    return use(alone);
  }
  return use(*pool);
}

}  // namespace

Result<TuneResult> SessionState::TuneOnCard(const Problem& problem, const Operands& operands,
                                            Executor& executor, const TunerOptions& options) {
  const DeviceQueue* queue = executor.queue();
  if (queue == nullptr) {
    return Status(StatusCode::kInternal, ToString(problem) + ": there is no queue of the card");
  }
  return WithHostThreads([&](Executor& host) {
    return TuneOnDevice(problem, operands, *queue, host, target_.backends(), options);
  });
}

std::shared_ptr<const Plan> SessionState::PlanWithoutCopy(
    const Problem& problem, const std::shared_ptr<const Plan>& plan) const {
  if (!plan->needs_transposed_b()) return nullptr;
  for (const std::shared_ptr<const Backend>& backend : target_.backends()) {
    if (backend->may_hang()) continue;
    for (const Candidate& candidate : backend->Candidates(problem, CandidateScope::kDefault)) {
      if (DenialOf(candidate, backend->identity())) continue;
      Result<std::unique_ptr<Plan>> other = backend->Prepare(problem, candidate);
      if (other.ok() && !other.value()->needs_transposed_b()) return std::move(other).value();
    }
  }
  return plan;  // every other one is denied
}

Status SessionState::RunOnCopy(const Entry& entry, const Operands& operands, Executor& executor,
                               GemmNode& node) {
  Operands with_copy = operands;
  with_copy.b_transposed = node.transposed.Find(operands.b);
  if (with_copy.b_transposed == nullptr) {
    with_copy.b_transposed = MakeTransposed(entry, operands, executor, node);
  }
  if (with_copy.b_transposed != nullptr) return entry.plan->Run(with_copy, executor);
  if (entry.plan_without_copy != entry.plan) {
    return entry.plan_without_copy->Run(operands, executor);
  }
  return {StatusCode::kNotSupported,
          "no kernel can run (" + ToString(entry.record.problem) +
              "): " + entry.record.winner.FullName() +
              " needs a transposed copy of the weight, which could not be made, and all others are "
              "denied"};
}

const void* SessionState::MakeTransposed(const Entry& entry, const Operands& operands,
                                         Executor& executor, GemmNode& node) {
  const DeviceQueue* queue = executor.queue();
  const Problem& problem = entry.record.problem;
  if (queue == nullptr || node.transposed.refused() || IsCapturing(executor)) return nullptr;
  // A node with several: one is kept, and to make the others again for each call would take longer
  // than any kernel saves.
  if (node.transposed.taken()) return nullptr;
  const std::shared_ptr<const Backend> backend = target_.Find(entry.record.winner.library);
  const size_t bytes = BytesOfTransposedB(problem);
  const size_t ceiling = queue->device().info().memory_bytes / kTransposedShare;
  const auto refuse = [&](std::string_view why) {
    node.transposed.Refuse();
    Note("(" + ToString(problem) + "): " + entry.record.winner.FullName() +
         " needs a transposed copy of the weight: " + std::string(why) + "; the default runs");
    return nullptr;
  };
  if (backend == nullptr || problem.stride_b != 0) return refuse("it cannot be made");
  if (transposed_bytes_.fetch_add(bytes) + bytes > ceiling) {
    transposed_bytes_.fetch_sub(bytes);
    return refuse("the copies of all weights would take more than a quarter of the memory");
  }
  Result<DeviceBuffer> memory = DeviceBuffer::Create(queue->shared_device(), bytes);
  Status status = memory.ok()
                      ? backend->TransposeB(problem, operands.b, memory.value().data(), executor)
                      : memory.TakeStatus();
  if (status.code() == StatusCode::kNotSupported && memory.ok()) {
    status = WithHostThreads([&](Executor& host) {
      return TransposeThroughHost(problem, operands, memory.value().data(), *queue, host);
    });
  }
  // Other streams may be the next to read it.
  if (status.ok()) status = queue->device().Synchronize(queue->stream());
  if (!status.ok()) {
    transposed_bytes_.fetch_sub(bytes);
    return refuse(status.message());
  }
  const void* const mine = memory.value().data();
  const void* const kept = node.transposed.Keep(operands.b, std::move(memory).value());
  if (kept != mine) transposed_bytes_.fetch_sub(bytes);  // another thread's was there before
  return kept;
}

Result<PendingTuning> SessionState::CopyForLater(const Problem& problem, const Operands& operands,
                                                 Executor& executor, const GemmNode& node) {
  PendingTuning pending{problem, {}, nullptr, 0.0};
  if (!target_.is_gpu()) {
    Result<OwnedOperands> copy =
        OwnedOperands::Copy(problem, operands, node.weight, background_.room());
    if (!copy.ok()) return copy.TakeStatus();
    pending.operands = std::move(copy).value();
    return pending;
  }
  const DeviceQueue& queue = *executor.queue();
  Result<OwnedOperands> copy = CopyOnDevice(problem, operands, queue, background_.room());
  if (!copy.ok()) return copy.TakeStatus();
  Result<DeviceEvent> ready = DeviceEvent::Create(queue.shared_device());
  if (!ready.ok()) return ready.TakeStatus();
  TUNABLEOP_RETURN_IF_ERROR(queue.device().RecordEvent(ready.value().get(), queue.stream()));
  pending.operands = std::move(copy).value();
  pending.ready = std::make_shared<const DeviceEvent>(std::move(ready).value());
  return pending;
}

Result<std::shared_ptr<const Entry>> SessionState::MeasurePendingOnCard(
    const PendingTuning& pending, const How& how) {
  const std::shared_ptr<const Device>& device = target_.device();
  Result<DeviceStream> stream = DeviceStream::Create(device);
  if (!stream.ok()) return stream.TakeStatus();
  Result<DeviceBuffer> workspace = DeviceBuffer::Create(device, kWorkspaceBytes);
  const DeviceQueue queue(device, stream.value().get(),
                          workspace.ok() ? std::move(workspace).value() : DeviceBuffer());
  if (pending.ready != nullptr) {
    TUNABLEOP_RETURN_IF_ERROR(device->WaitEvent(queue.stream(), pending.ready->get()));
  }
  QueueExecutor executor(queue);
  return Measure(pending.problem, pending.operands.view(), executor, how);
}

}  // namespace tunableop
