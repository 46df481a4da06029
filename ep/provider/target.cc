#include "provider/target.h"

#include <algorithm>
#include <utility>

#include "backends/registry.h"
#include "provider/processors.h"

namespace tunableop {
namespace {

constexpr size_t kCpuScratchBytes = size_t{256} << 20;
// Copies of operands and results beside buffers that sweep the card's caches.
constexpr size_t kCardScratchBytes = size_t{2} << 30;
constexpr size_t kCardShare = 16;  // of its memory: for small cards

// A kernel's first call on a card loads its code: 2 to 3 ms, so that 100 ms would see some thirty
// of them (an H200 with cublasLt 13.1).
constexpr double kCardTuningMs = 300.0;

// How large the last cache is taken to be where the runtime does not say: an MI300X's 256 MiB is
// the largest there is.
constexpr size_t kUnknownCacheBytes = size_t{256} << 20;

Fingerprint FingerprintOf(const Device& device) {
  const DeviceInfo& info = device.info();
  const std::string partition = PartitionMode(device.vendor_id(), info.pci_bus_id);
  return {std::string(device.backend()), info.name,
          info.arch + (partition.empty() ? "" : " " + partition), info.compute_units};
}

std::string NamesOf(std::span<const std::shared_ptr<const Backend>> backends) {
  std::string names;
  for (const std::shared_ptr<const Backend>& backend : backends) {
    names += (names.empty() ? "" : ", ") + std::string(backend->library());
  }
  return names;
}

}  // namespace

Target::Target(std::shared_ptr<const Device> device, Backends backends, Fingerprint fingerprint)
    : device_(std::move(device)),
      backends_(std::make_shared<const Backends>(std::move(backends))),
      fingerprint_(std::make_shared<const Fingerprint>(std::move(fingerprint))) {}

Target Target::Cpu() {
  const auto backends = CpuBackends();
  return {nullptr, Backends(backends.begin(), backends.end()), CpuFingerprint()};
}

Target Target::Card(const Gpu& gpu) {
  return {gpu.device, gpu.backends, FingerprintOf(*gpu.device)};
}

Result<Target> Target::Restricted(const Options& options) const {
  if (!is_gpu() && options.precision != Precision::kExact) {
    return Status(
        StatusCode::kInvalidArgument,
        "TunableOp option 'precision': expected exact (a CPU runs fp32 as fp32), found '" +
            std::string(tunableop::Name(options.precision)) + "'");
  }
  if (options.libraries.empty()) return *this;
  Target target = *this;
  Backends kept;
  for (const std::string& library : options.libraries) {
    std::shared_ptr<const Backend> backend = Find(library);
    if (backend == nullptr) {
      return Status(
          StatusCode::kInvalidArgument,
          "TunableOp option 'candidates': expected default, all, or some of the libraries "
          "of " +
              Name() + " (" + NamesOf(*backends_) + ") with commas between them, found '" +
              library + "'");
    }
    if (std::find(kept.begin(), kept.end(), backend) == kept.end()) kept.push_back(backend);
  }
  target.backends_ = std::make_shared<const Backends>(std::move(kept));
  return target;
}

std::string Target::Name() const {
  if (!is_gpu()) return "cpu";
  return std::string(device_->backend()) + ":" + std::to_string(device_->ordinal());
}

std::shared_ptr<const Backend> Target::Find(std::string_view library) const noexcept {
  for (const std::shared_ptr<const Backend>& backend : *backends_) {
    if (backend->library() == library) return backend;
  }
  return nullptr;
}

std::unique_ptr<Sensors> Target::MakeSensors() const {
  if (!is_gpu()) return CpuSensors();
  return GpuSensors(device_->vendor_id(), device_->info().pci_bus_id);
}

size_t Target::CacheBytes(int threads) const noexcept {
  // Not the last level, which others fill, too: on a virtual machine it is that of the whole host.
  if (!is_gpu()) return CoreCacheBytes() * static_cast<size_t>(std::max(threads, 1));
  const size_t bytes = device_->info().cache_bytes;
  return bytes > 0 ? bytes : kUnknownCacheBytes;
}

double Target::DefaultTuningMs() const noexcept {
  return is_gpu() ? kCardTuningMs : TunerOptions().max_tuning_ms;
}

size_t Target::DefaultScratchBytes() const noexcept {
  if (!is_gpu()) return kCpuScratchBytes;
  const size_t share = device_->info().memory_bytes / kCardShare;
  return share > 0 ? std::min(kCardScratchBytes, share) : kCpuScratchBytes;
}

}  // namespace tunableop
