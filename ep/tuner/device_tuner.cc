#include "tuner/device_tuner.h"

#include <exception>
#include <new>

#include "tuner/device_tuning.h"
#include "tuner/preconditions.h"

namespace tunableop {

Result<TuneResult> TuneOnDevice(const Problem& problem, const Operands& operands,
                                const DeviceQueue& queue, Executor& host,
                                std::span<const std::shared_ptr<const Backend>> backends,
                                const TunerOptions& options) {
  try {
    if (Status status = CheckOperands(problem, operands); !status.ok()) return status;
    return DeviceTuning(problem, operands, queue, host, options).Run(backends);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory, ToString(problem) + ": out of memory while tuning");
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, ToString(problem) + ": " + error.what());
  }
}

}  // namespace tunableop
