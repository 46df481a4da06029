// Lines for a person, in ONNX Runtime's log, prefixed "[TunableOp] ".
#pragma once

#include <string>

#include "abi/ort_c_api.h"

namespace tunableop {

// Copyable handle on a logger that ONNX Runtime owns (a session's, or the process default).
// Thread-safe.
class Log {
 public:
  explicit Log(const OrtLogger* logger) noexcept;

  bool debug_enabled() const noexcept { return level_ <= ORT_LOGGING_LEVEL_VERBOSE; }

  void Debug(const std::string& message) const noexcept;
  void Info(const std::string& message) const noexcept;
  void Warning(const std::string& message) const noexcept;
  void Error(const std::string& message) const noexcept;

 private:
  void Write(OrtLoggingLevel level, const std::string& message) const noexcept;

  const OrtLogger* logger_;
  OrtLoggingLevel level_ = ORT_LOGGING_LEVEL_WARNING;
};

// ONNX Runtime's default logger, for what is of no session. CreateEpFactories sets it.
Log DefaultLog() noexcept;
void SetDefaultLogger(const OrtLogger* logger) noexcept;

}  // namespace tunableop
