#include "tuner/tuner.h"

#include <exception>
#include <new>

#include "tuner/preconditions.h"
#include "tuner/tuning.h"

namespace tunableop {
Result<TuneResult> Tune(const Problem& problem, const Operands& operands, Executor& executor,
                        std::span<const std::shared_ptr<const Backend>> backends,
                        const TunerOptions& options) {
  try {
    if (Status status = CheckOperands(problem, operands); !status.ok()) return status;
    return Tuning(problem, operands, executor, options).Run(backends);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory, ToString(problem) + ": out of memory while tuning");
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, ToString(problem) + ": " + error.what());
  }
}

}  // namespace tunableop
