// What a session's GEMMs run on: the CPU, or one card.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backends/gpu/devices.h"
#include "cache/fingerprint.h"
#include "gemm/backend.h"
#include "gemm/device.h"
#include "tuner/sensors.h"

namespace tunableop {

// Immutable, cheap to copy, thread-safe.
class Target {
 public:
  static Target Cpu();
  // `gpu` is one of Gpus(), with at least one library.
  static Target Card(const Gpu& gpu);

  bool is_gpu() const noexcept { return device_ != nullptr; }
  // Null: the CPU.
  const std::shared_ptr<const Device>& device() const noexcept { return device_; }

  // The first gives the default kernel.
  std::span<const std::shared_ptr<const Backend>> backends() const noexcept { return backends_; }
  // nullptr: not present.
  std::shared_ptr<const Backend> Find(std::string_view library) const noexcept;
  // What its entries in a file are kept under: equal cards have equal ones, whichever slot they are
  // in.
  const Fingerprint& fingerprint() const noexcept { return *fingerprint_; }
  std::unique_ptr<Sensors> MakeSensors() const;
  // Weights beyond this are not in the cache when they are used again.
  size_t CacheBytes() const;

 private:
  Target() = default;

  std::shared_ptr<const Device> device_;
  std::span<const std::shared_ptr<const Backend>> backends_;
  std::shared_ptr<const Fingerprint> fingerprint_;
};

}  // namespace tunableop
