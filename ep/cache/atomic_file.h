// Files that are either old or new, never half: whatever happens in between. Linux.
#pragma once

#include <string>
#include <string_view>

#include "gemm/status.h"

namespace tunableop {

// Where writing to `path` ends: symbolic links followed (a dangling last one too), so that
// replacing the file replaces what a link points to and not the link. kIoError: too many links.
Result<std::string> ResolveLinks(const std::string& path);

// The whole of a regular file. kNotFound: there is none; kIoError: it cannot be read, is no regular
// file, or is larger than 256 MiB. Never blocks on a FIFO.
Result<std::string> ReadWholeFile(const std::string& path);

// An exclusive advisory lock on "<path>.lock", held while this lives. The lock file stays: removing
// it would let two processes lock two different files of that name.
class FileLock {
 public:
  // Waits for another holder, for `patience_ms` at most; then kBusy. kIoError: other trouble.
  static Result<FileLock> Acquire(const std::string& path, int patience_ms);
  FileLock(FileLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

// Replaces `path` by `content`: temporary file beside it, fsync, rename, fsync of the folder. The
// new file has the old one's permissions. On failure the old file is untouched and nothing is left
// behind. With `keep_old_as` the old file stays under that name. The caller holds the FileLock of
// `path`: under it, any temporary file found is a killed process's and is removed.
Status ReplaceFile(const std::string& path, std::string_view content,
                   const std::string& keep_old_as = "");

// "<path>.bad", or "<path>.bad.2" and so on: the first name that is free.
std::string FreeBadName(const std::string& path);

}  // namespace tunableop
