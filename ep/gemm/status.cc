#include "gemm/status.h"

namespace tunableop {

std::string_view StatusCodeName(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kNotSupported:
      return "not supported";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kOutOfMemory:
      return "out of memory";
    case StatusCode::kIoError:
      return "I/O error";
    case StatusCode::kDataLoss:
      return "damaged data";
    case StatusCode::kInternal:
      return "internal error";
    case StatusCode::kBusy:
      return "busy";
    case StatusCode::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

}  // namespace tunableop
