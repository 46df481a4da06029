// A CSV of every sample of every measurement: what docs/tuning.md draws its pictures from.
#pragma once

#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "gemm/problem.h"
#include "gemm/status.h"
#include "tuner/tuner.h"

namespace tunableop {

// Columns: time_unix,problem,library,kernel,phase,round,ms,role,elected. phase: "race", or "probe"
// for a candidate that was too slow to race; role: "winner", "default", "challenger", "spectator";
// a winner that is the default is "default"; elected: 1 or 0. Appends; the head line is written to
// an empty file only.
class Trace {
 public:
  // kIoError: the file cannot be opened for appending.
  static Result<std::unique_ptr<Trace>> Open(const std::string& path);

  // Writes and flushes. Thread-safe. A full disk loses lines and nothing else.
  void Write(const Problem& problem, const TuneResult& result) noexcept;

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  explicit Trace(std::FILE* file) : file_(file) {}

  std::mutex mutex_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace tunableop
