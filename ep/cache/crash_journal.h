// A file that names the kernel which is being tried, for the process that comes after one which the
// kernel killed.
//
// Beside a cache file "<cache>" each measuring process holds "<cache>.trying.<pid>.<number>" open,
// locked (flock) and mapped: to enter a call is a store into the mapping, which outlives the
// process. A file that nobody holds the lock of is a dead process's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gemm/status.h"
#include "tuner/trial_journal.h"

namespace tunableop {

// What a dead process was doing.
struct Death {
  std::string library;
  std::string kernel;
  std::string problem;      // ToString(Problem)
  bool is_default = false;  // the first of its candidates
};

class CrashJournal final : public TrialJournal {
 public:
  // Creates the file, of fixed size, on disk blocks that are there (a full disk is an error here
  // and not a SIGBUS later). kIoError: it cannot be created.
  static Result<std::unique_ptr<CrashJournal>> Create(const std::filesystem::path& cache);
  ~CrashJournal() override;  // removes the file
  CrashJournal(const CrashJournal&) = delete;
  CrashJournal& operator=(const CrashJournal&) = delete;

  void Begin(const Problem& problem, std::span<const Candidate> candidates) noexcept override;
  void Enter(size_t index) noexcept override;
  void Leave() noexcept override;
  void End() noexcept override;

 private:
  struct Impl;
  explicit CrashJournal(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Reads and removes the files that dead processes left beside `cache`. Damaged ones are removed
// without a word. Empty when nobody died in a call.
std::vector<Death> CollectDeaths(const std::filesystem::path& cache);

// What the living process behind a journal is doing: for a parent that watches a worker.
struct Progress {
  bool in_call = false;
  uint64_t calls = 0;  // Enter so far: one that does not grow while in_call is a hang
  Death current;       // when in_call
};
// kNotFound: process `pid` holds no journal beside `cache`.
Result<Progress> WatchJournal(const std::filesystem::path& cache, int64_t pid);

}  // namespace tunableop
