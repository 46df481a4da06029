#include "provider/trace.h"

#include <cerrno>
#include <ctime>
#include <fstream>
#include <system_error>

namespace tunableop {
namespace {

constexpr char kHead[] = "time_unix,problem,library,kernel,phase,round,ms,role,elected\n";
constexpr size_t kFewestOfARace = 3;

bool IsOursOrEmpty(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  if (!file || !std::getline(file, line))
    return true;  // none yet; other trouble shows when opening
  return line + "\n" == kHead;
}

const char* RoleOf(const Sample& sample, const TuneResult& result) noexcept {
  if (sample.candidate.library == "stock") return "spectator";
  if (sample.candidate == result.default_candidate) return "default";
  return sample.candidate == result.winner ? "winner" : "challenger";
}

}  // namespace

Result<std::unique_ptr<Trace>> Trace::Open(const std::string& path) {
  if (!IsOursOrEmpty(path)) {
    return Status(StatusCode::kDataLoss, path + ": expected a trace that begins with the line '" +
                                             std::string(kHead, sizeof(kHead) - 2) +
                                             "', or an empty file; no trace is kept");
  }
  std::FILE* file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) {
    return Status(StatusCode::kIoError,
                  path + ": cannot open for the trace: " + std::generic_category().message(errno));
  }
  std::unique_ptr<Trace> trace(new Trace(file));
  if (std::fseek(file, 0, SEEK_END) == 0 && std::ftell(file) == 0) {
    std::fputs(kHead, file);
    std::fflush(file);
  }
  return trace;
}

void Trace::Write(const Problem& problem, const TuneResult& result) noexcept {
  try {
    const std::string what = ToString(problem);
    const auto now = static_cast<long long>(std::time(nullptr));
    const std::lock_guard lock(mutex_);
    for (const Sample& sample : result.samples) {
      const char* role = RoleOf(sample, result);
      const char* phase = sample.milliseconds.size() >= kFewestOfARace ? "race" : "probe";
      size_t round = 0;
      for (const double ms : sample.milliseconds) {
        // Problems hold commas and no quotes.
        std::fprintf(file_.get(), "%lld,\"%s\",%s,%s,%s,%zu,%.6g,%s,%d\n", now, what.c_str(),
                     sample.candidate.library.c_str(), sample.candidate.kernel.c_str(), phase,
                     round++, ms, role, sample.candidate == result.winner ? 1 : 0);
      }
    }
    std::fflush(file_.get());
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for the lines
  }
}

}  // namespace tunableop
