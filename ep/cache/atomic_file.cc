#include "cache/atomic_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <utility>

namespace tunableop {
namespace {

constexpr off_t kMaxFileBytes = off_t{256} << 20;

Status IoError(const std::string& path, const char* action, int error) {
  return {error == ENOENT ? StatusCode::kNotFound : StatusCode::kIoError,
          path + ": cannot " + action + ": " + std::generic_category().message(error)};
}

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  // Some file systems report a full disk only here.
  int Close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

// Removes a file unless told that it has become something of value.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }
  void Keep() { path_.clear(); }

 private:
  std::string path_;
};

std::pair<std::string, std::string> Split(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"./", path};
  return {path.substr(0, slash + 1), path.substr(slash + 1)};
}

std::string TemporaryPrefix(const std::string& base) { return "." + base + ".tmp."; }

void RemoveOrphans(const std::string& folder, const std::string& base) {
  DIR* dir = ::opendir(folder.c_str());
  if (dir == nullptr) return;
  const std::string prefix = TemporaryPrefix(base);
  const int descriptor = ::dirfd(dir);
  while (const dirent* entry = descriptor >= 0 ? ::readdir(dir) : nullptr) {
    if (std::string_view(entry->d_name).starts_with(prefix)) {
      ::unlinkat(descriptor, entry->d_name, 0);
    }
  }
  ::closedir(dir);
}

Status WriteAll(int fd, const std::string& path, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return IoError(path, "write", errno);
    }
    content.remove_prefix(static_cast<size_t>(written));
  }
  return Status::Ok();
}

}  // namespace

Result<std::string> ResolveLinks(const std::string& path) {
  std::string current = path;
  for (int i = 0; i < 40; ++i) {
    std::array<char, PATH_MAX> target;
    const ssize_t size = ::readlink(current.c_str(), target.data(), target.size());
    if (size < 0) return current;
    const std::string_view text(target.data(), static_cast<size_t>(size));
    current = text.starts_with('/') ? std::string(text) : Split(current).first + std::string(text);
  }
  return IoError(path, "follow the link", ELOOP);
}

Result<std::string> ReadWholeFile(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return IoError(path, "open", errno);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return IoError(path, "read", errno);
  if (S_ISDIR(info.st_mode)) return IoError(path, "read", EISDIR);
  if (!S_ISREG(info.st_mode)) {
    return Status(StatusCode::kIoError, path + ": cannot read: not a regular file");
  }
  if (info.st_size > kMaxFileBytes) {
    return Status(StatusCode::kIoError, path + ": cannot read: larger than 256 MiB");
  }
  std::string content(static_cast<size_t>(info.st_size), '\0');
  size_t have = 0;
  while (have < content.size()) {
    const ssize_t got = ::read(fd.get(), content.data() + have, content.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return IoError(path, "read", errno);
    if (got == 0) break;  // it became shorter meanwhile
    have += static_cast<size_t>(got);
  }
  content.resize(have);
  return content;
}

Result<FileLock> FileLock::Acquire(const std::string& path, int patience_ms) {
  const std::string name = path + ".lock";
  const int fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) return IoError(name, "open", errno);
  FileLock lock(fd);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return IoError(name, "lock", errno);
    if (std::chrono::steady_clock::now() >= deadline) {
      return Status(StatusCode::kBusy, name + ": cannot lock: another process holds it for " +
                                           std::to_string(patience_ms) + " ms");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return lock;
}

FileLock::~FileLock() {
  if (fd_ < 0) return;
  // Closing alone would not do: a child forked meanwhile shares the lock, and keeps it.
  ::flock(fd_, LOCK_UN);
  ::close(fd_);
}

Status ReplaceFile(const std::string& path, std::string_view content,
                   const std::string& keep_old_as) {
  static std::atomic<uint32_t> serial{0};
  const auto [folder, base] = Split(path);
  RemoveOrphans(folder, base);

  struct stat old_file;
  const bool exists = ::stat(path.c_str(), &old_file) == 0;
  if (exists && S_ISDIR(old_file.st_mode)) return IoError(path, "write", EISDIR);
  if (exists && ::access(path.c_str(), W_OK) != 0) return IoError(path, "write", errno);

  const std::string name = folder + TemporaryPrefix(base) + std::to_string(::getpid()) + "." +
                           std::to_string(serial.fetch_add(1));
  Fd fd(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (fd.get() < 0) return IoError(name, "create", errno);
  TemporaryFile temporary(name);
  TUNABLEOP_RETURN_IF_ERROR(WriteAll(fd.get(), name, content));
  if (exists && ::fchmod(fd.get(), old_file.st_mode & 07777) != 0) {
    return IoError(name, "set permissions", errno);
  }
  if (::fsync(fd.get()) != 0) return IoError(name, "write", errno);
  if (fd.Close() != 0) return IoError(name, "write", errno);

  // A second name for the old file, before the rename takes the first: at no moment is there none.
  if (!keep_old_as.empty() && exists && ::link(path.c_str(), keep_old_as.c_str()) != 0) {
    return IoError(keep_old_as, "set the old file aside", errno);
  }
  if (::rename(name.c_str(), path.c_str()) != 0) return IoError(path, "replace", errno);
  temporary.Keep();

  const Fd dir(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // The file is in place and whole; a folder that cannot be synchronised only risks that a power
  // cut brings the old one back. EINVAL: the file system has no such thing.
  if (dir.get() >= 0 && ::fsync(dir.get()) != 0 && errno != EINVAL) {
    return IoError(folder, "synchronise", errno);
  }
  return Status::Ok();
}

std::string FreeBadName(const std::string& path) {
  std::string name = path + ".bad";
  struct stat info;
  for (int i = 2; ::lstat(name.c_str(), &info) == 0 && i < 10'000; ++i) {
    name = path + ".bad." + std::to_string(i);
  }
  return name;
}

}  // namespace tunableop
