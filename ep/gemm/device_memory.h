// Owners of what a Device hands out. Movable; each keeps its Device alive.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "gemm/device.h"
#include "gemm/status.h"

namespace tunableop {

// Memory of the card, or page-locked memory of the host.
class DeviceBuffer {
 public:
  DeviceBuffer() noexcept = default;
  static Result<DeviceBuffer> Create(std::shared_ptr<const Device> device, size_t bytes) {
    Result<void*> memory = device->Allocate(bytes);
    if (!memory.ok()) return memory.TakeStatus();
    return DeviceBuffer(std::move(device), memory.value(), bytes, false);
  }
  static Result<DeviceBuffer> CreatePinned(std::shared_ptr<const Device> device, size_t bytes) {
    Result<void*> memory = device->AllocateHost(bytes);
    if (!memory.ok()) return memory.TakeStatus();
    return DeviceBuffer(std::move(device), memory.value(), bytes, true);
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept { Swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    DeviceBuffer(std::move(other)).Swap(*this);
    return *this;
  }
  ~DeviceBuffer() {
    if (memory_ == nullptr) return;
    if (pinned_) {
      device_->FreeHost(memory_);
    } else {
      device_->Free(memory_);
    }
  }

  void* data() const noexcept { return memory_; }
  size_t bytes() const noexcept { return bytes_; }
  explicit operator bool() const noexcept { return memory_ != nullptr; }
  // It is never freed: something that does not end may still use it.
  void Abandon() noexcept { memory_ = nullptr; }

 private:
  DeviceBuffer(std::shared_ptr<const Device> device, void* memory, size_t bytes, bool pinned)
      : device_(std::move(device)), memory_(memory), bytes_(bytes), pinned_(pinned) {}
  void Swap(DeviceBuffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(pinned_, other.pinned_);
  }

  std::shared_ptr<const Device> device_;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  bool pinned_ = false;
};

class DeviceStream {
 public:
  DeviceStream() noexcept = default;
  static Result<DeviceStream> Create(std::shared_ptr<const Device> device) {
    Result<NativeStream> stream = device->CreateStream();
    if (!stream.ok()) return stream.TakeStatus();
    return DeviceStream(std::move(device), stream.value());
  }
  DeviceStream(DeviceStream&& other) noexcept { Swap(other); }
  DeviceStream& operator=(DeviceStream&& other) noexcept {
    DeviceStream(std::move(other)).Swap(*this);
    return *this;
  }
  ~DeviceStream() {
    if (stream_ != nullptr) device_->DestroyStream(stream_);
  }

  NativeStream get() const noexcept { return stream_; }
  void Abandon() noexcept { stream_ = nullptr; }  // as DeviceBuffer's

 private:
  DeviceStream(std::shared_ptr<const Device> device, NativeStream stream)
      : device_(std::move(device)), stream_(stream) {}
  void Swap(DeviceStream& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(stream_, other.stream_);
  }

  std::shared_ptr<const Device> device_;
  NativeStream stream_ = nullptr;
};

class DeviceEvent {
 public:
  DeviceEvent() noexcept = default;
  static Result<DeviceEvent> Create(std::shared_ptr<const Device> device) {
    Result<NativeEvent> event = device->CreateEvent();
    if (!event.ok()) return event.TakeStatus();
    return DeviceEvent(std::move(device), event.value());
  }
  DeviceEvent(DeviceEvent&& other) noexcept { Swap(other); }
  DeviceEvent& operator=(DeviceEvent&& other) noexcept {
    DeviceEvent(std::move(other)).Swap(*this);
    return *this;
  }
  ~DeviceEvent() {
    if (event_ != nullptr) device_->DestroyEvent(event_);
  }

  NativeEvent get() const noexcept { return event_; }
  void Abandon() noexcept { event_ = nullptr; }  // as DeviceBuffer's

 private:
  DeviceEvent(std::shared_ptr<const Device> device, NativeEvent event)
      : device_(std::move(device)), event_(event) {}
  void Swap(DeviceEvent& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(event_, other.event_);
  }

  std::shared_ptr<const Device> device_;
  NativeEvent event_ = nullptr;
};

// What was recorded by BeginCapture and EndCapture. Not running when it is destroyed.
class DeviceGraph {
 public:
  DeviceGraph() noexcept = default;
  // On the thread that began the capture.
  static Result<DeviceGraph> EndCapture(std::shared_ptr<const Device> device, NativeStream stream) {
    Result<NativeGraph> graph = device->EndCapture(stream);
    if (!graph.ok()) return graph.TakeStatus();
    return DeviceGraph(std::move(device), graph.value());
  }
  DeviceGraph(DeviceGraph&& other) noexcept { Swap(other); }
  DeviceGraph& operator=(DeviceGraph&& other) noexcept {
    DeviceGraph(std::move(other)).Swap(*this);
    return *this;
  }
  ~DeviceGraph() {
    if (graph_ != nullptr) device_->DestroyGraph(graph_);
  }

  NativeGraph get() const noexcept { return graph_; }
  explicit operator bool() const noexcept { return graph_ != nullptr; }
  void Abandon() noexcept { graph_ = nullptr; }  // as DeviceBuffer's

 private:
  DeviceGraph(std::shared_ptr<const Device> device, NativeGraph graph)
      : device_(std::move(device)), graph_(graph) {}
  void Swap(DeviceGraph& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(graph_, other.graph_);
  }

  std::shared_ptr<const Device> device_;
  NativeGraph graph_ = nullptr;
};

}  // namespace tunableop
