#include "tuner/device_tuner.h"

namespace tunableop {

Result<TuneResult> TuneOnDevice(const Problem& problem, const Operands& /*operands*/,
                                const DeviceQueue& /*queue*/, Executor& /*host*/,
                                std::span<const std::shared_ptr<const Backend>> /*backends*/,
                                const TunerOptions& /*options*/) {
  return Status(StatusCode::kNotSupported, ToString(problem) + ": cards are not measured yet");
}

}  // namespace tunableop
