#include "provider/gpu/queues.h"

#include <array>
#include <utility>

#include "provider/per_process.h"

namespace tunableop {
namespace {

// cuBLASLt asks for 32 MiB on the newest cards; hipBLASLt's split-K kernels for as much.
constexpr std::array<size_t, 2> kWorkspaces = {size_t{32} << 20, size_t{8} << 20};
// More streams than requests ever run at once: the rest have to do with less, then with nothing.
constexpr size_t kFullWorkspaces = 16;
constexpr size_t kSomeWorkspaces = 64;

}  // namespace

Result<std::shared_ptr<StreamQueues>> StreamQueues::Create(std::shared_ptr<const Device> device) {
  Result<DeviceStream> own = DeviceStream::Create(device);
  if (!own.ok()) return own.TakeStatus();
  return std::make_shared<StreamQueues>(std::move(device), std::move(own).value());
}

StreamQueues::StreamQueues(std::shared_ptr<const Device> device, DeviceStream own) noexcept
    : device_(std::move(device)), own_(std::move(own)), forks_(Forks()) {}

StreamQueues::~StreamQueues() {
  Close();
  if (device_->lost() || forks_ != Forks()) own_.Abandon();
}

const StreamQueues::Node* StreamQueues::Find(NativeStream stream) const noexcept {
  const Node* node = head_.load(std::memory_order_acquire);
  while (node != nullptr && node->queue.stream() != stream) node = node->next;
  return node;
}

Result<const DeviceQueue*> StreamQueues::Of(NativeStream stream) {
  if (const Node* node = Find(stream)) return &node->queue;
  if (stream == own()) {
    own_used_.store(true);
  } else {
    SawForeign();
  }
  if (device_->IsCapturing(stream)) {
    return Status(StatusCode::kNotSupported,
                  "TunableOp has not used this stream before it was captured into a graph: run the "
                  "model once on it first, so that nothing is allocated while it is captured");
  }
  const std::lock_guard lock(mutex_);
  if (closed_) return Status(StatusCode::kInternal, "TunableOp: the session has ended");
  if (const Node* node = Find(stream)) return &node->queue;
  auto* node = new Node{DeviceQueue(device_, stream, Workspace(count_)), head_.load()};
  ++count_;
  head_.store(node, std::memory_order_release);
  return static_cast<const DeviceQueue*>(&node->queue);
}

DeviceBuffer StreamQueues::Workspace(size_t queues) {
  for (const size_t bytes : kWorkspaces) {
    if (queues >= (bytes == kWorkspaces[0] ? kFullWorkspaces : kSomeWorkspaces)) continue;
    Result<DeviceBuffer> workspace = DeviceBuffer::Create(device_, bytes);
    if (workspace.ok()) return std::move(workspace).value();
  }
  return {};  // kernels that need none remain
}

Status StreamQueues::Wait(NativeStream stream) const {
  // It would spoil the graph.
  if (device_->IsCapturing(stream)) {
    return {StatusCode::kNotSupported,
            "TunableOp: a graph is being captured, on a stream that would have to be waited for: "
            "copy before or after that, and bind inputs and outputs on the card"};
  }
  return device_->Synchronize(stream);
}

Status StreamQueues::SynchronizeOwn() const {
  return own_used_.load() ? Wait(own()) : Status::Ok();
}

Status StreamQueues::SynchronizeForeign() const {
  const std::lock_guard lock(mutex_);  // against Close, after which they may be gone
  if (closed_) return Status::Ok();
  for (const Node* node = head_.load(); node != nullptr; node = node->next) {
    if (node->queue.stream() != own()) {
      TUNABLEOP_RETURN_IF_ERROR(Wait(node->queue.stream()));
    }
  }
  return Status::Ok();
}

void StreamQueues::Close() noexcept {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  closed_ = true;
  // A lost card answers no more, and a child of fork cannot talk to its parent's: what they hold
  // goes with the process.
  bool dead = device_->lost() || forks_ != Forks();
  if (!dead) dead = !device_->Synchronize(own()).ok() && device_->lost();
  Node* node = head_.exchange(nullptr);
  while (node != nullptr) {
    Node* next = node->next;
    if (dead) node->queue.Abandon();
    delete node;
    node = next;
  }
}

}  // namespace tunableop
