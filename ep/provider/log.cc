#include "provider/log.h"

#include <atomic>

#include "provider/ort_runtime.h"

namespace tunableop {
namespace {

std::atomic<const OrtLogger*> g_default{nullptr};

}  // namespace

Log DefaultLog() noexcept { return Log(g_default.load()); }
void SetDefaultLogger(const OrtLogger* logger) noexcept { g_default.store(logger); }

Log::Log(const OrtLogger* logger) noexcept : logger_(logger) {
  if (logger_ == nullptr) return;
  OrtLoggingLevel level = ORT_LOGGING_LEVEL_WARNING;
  if (OrtStatus* status = Ort().api->Logger_GetLoggingSeverityLevel(logger_, &level);
      status != nullptr) {
    Ort().api->ReleaseStatus(status);
    return;
  }
  level_ = level;
}

void Log::Write(OrtLoggingLevel level, const std::string& message) const noexcept {
  if (logger_ == nullptr || level < level_) return;
  try {
    const std::string line = "[TunableOp] " + message;
    OrtStatus* status =
        Ort().api->Logger_LogMessage(logger_, level, line.c_str(), "tunableop", 0, "TunableOp");
    if (status != nullptr) Ort().api->ReleaseStatus(status);
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for a log line; the line is lost,
                   // nothing else
  }
}

void Log::Debug(const std::string& message) const noexcept {
  Write(ORT_LOGGING_LEVEL_VERBOSE, message);
}
void Log::Info(const std::string& message) const noexcept {
  Write(ORT_LOGGING_LEVEL_INFO, message);
}
void Log::Warning(const std::string& message) const noexcept {
  Write(ORT_LOGGING_LEVEL_WARNING, message);
}
void Log::Error(const std::string& message) const noexcept {
  Write(ORT_LOGGING_LEVEL_ERROR, message);
}

}  // namespace tunableop
