// What a session's GEMMs run on: the CPU, or one card.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/gpu/devices.h"
#include "cache/fingerprint.h"
#include "gemm/backend.h"
#include "gemm/device.h"
#include "gemm/status.h"
#include "provider/options.h"
#include "tuner/sensors.h"

namespace tunableop {

// Immutable, cheap to copy, thread-safe.
class Target {
 public:
  static Target Cpu();
  // `gpu` is one of Gpus(), with at least one library.
  static Target Card(const Gpu& gpu);

  // The same with the libraries that options.libraries names only. Error, which says what there is:
  // the options ask for what this target has not (a library, a precision).
  Result<Target> Restricted(const Options& options) const;

  bool is_gpu() const noexcept { return device_ != nullptr; }
  // Null: the CPU.
  const std::shared_ptr<const Device>& device() const noexcept { return device_; }
  // "cpu", "cuda:0"
  std::string Name() const;

  // The first gives the default kernel.
  std::span<const std::shared_ptr<const Backend>> backends() const noexcept { return *backends_; }
  // nullptr: not present.
  std::shared_ptr<const Backend> Find(std::string_view library) const noexcept;
  // What its entries in a file are kept under: equal cards have equal ones, whichever slot they are
  // in.
  const Fingerprint& fingerprint() const noexcept { return *fingerprint_; }
  std::unique_ptr<Sensors> MakeSensors() const;
  // Weights beyond this are not in the caches of `threads` cores, or of the card, when they are
  // used again.
  size_t CacheBytes(int threads) const noexcept;
  // What measuring may take when the user sets no limit (TunerOptions::max_scratch_bytes).
  size_t DefaultScratchBytes() const noexcept;
  // The same of TunerOptions::max_tuning_ms.
  double DefaultTuningMs() const noexcept;

 private:
  using Backends = std::vector<std::shared_ptr<const Backend>>;
  Target(std::shared_ptr<const Device> device, Backends backends, Fingerprint fingerprint);

  std::shared_ptr<const Device> device_;
  std::shared_ptr<const Backends> backends_;
  std::shared_ptr<const Fingerprint> fingerprint_;
};

}  // namespace tunableop
