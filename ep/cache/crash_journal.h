// A file that names the kernel which is being tried, for the process that comes after one which the
// kernel killed.
//
// Beside a cache file "<cache>" each measuring process holds "<cache>.trying.<pid>.<number>" open,
// locked (flock) and mapped: to enter a call is a store into the mapping, which outlives the
// process. A file that nobody holds the lock of is a dead process's; process numbers are never
// looked at, since containers that share a folder have the same ones.
//
// Linux drops the lock with the last descriptor of the open file. Descriptors are closed on exec,
// and a child forked without exec closes its copy at once and gets private memory in the mapping's
// place; when it measures, it makes a file of its own.
//
// What a file says is circumstantial: a process killed from outside (SIGKILL, SIGTERM, _exit) while
// another of its threads measures leaves the same traces as one that the kernel killed. exit() is
// told apart, and so is a machine that went down. File systems without flock (some network ones)
// have no journal: Create fails there. On one that copies on write (btrfs), a disk that is full
// later may still raise SIGBUS.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gemm/status.h"
#include "gemm/trial_journal.h"

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
  // and not a SIGBUS later). kIoError: it cannot be created, locked, allocated or mapped; measuring
  // goes on without a journal then.
  static Result<std::unique_ptr<CrashJournal>> Create(const std::filesystem::path& cache);
  ~CrashJournal() override;  // removes the file
  CrashJournal(const CrashJournal&) = delete;
  CrashJournal& operator=(const CrashJournal&) = delete;

  // Without memory for the names the problem is measured unwatched.
  void Begin(const Problem& problem, std::span<const Candidate> candidates) noexcept override;
  // 5 ns with Leave; some 60 when another candidate than before is entered. An index that Begin did
  // not name is ignored.
  void Enter(size_t index) noexcept override;
  void Leave() noexcept override;
  void End() noexcept override;

 private:
  struct Impl;
  explicit CrashJournal(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Reads and removes the files that dead processes left beside `cache`. Damaged ones are removed
// without a word; what bears such a name and is no regular file is left alone. Empty when nobody
// died in a call, or the folder cannot be read. A death is told to one caller only, of whatever
// process; one whose file cannot be removed is not told. Names beyond 3.4 KiB are cut.
std::vector<Death> CollectDeaths(const std::filesystem::path& cache);

// What the living process behind a journal is doing: for a parent that watches a worker.
struct Progress {
  bool in_call = false;
  uint64_t calls = 0;  // Enter so far: one that does not grow while in_call is a hang
  Death current;       // when in_call
};
// kNotFound: process `pid` holds no journal beside `cache`.
Result<Progress> WatchJournal(const std::filesystem::path& cache, int64_t pid);

// What process `pid`, which is dead, was calling; the file stays, for CollectDeaths. kNotFound:
// nothing, or somebody collected it already.
Result<Death> LastCall(const std::filesystem::path& cache, int64_t pid);

}  // namespace tunableop
