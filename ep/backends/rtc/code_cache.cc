#include "backends/rtc/code_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace tunableop {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOff = "off";
constexpr size_t kMostBytes = size_t{256} << 20;  // of a file; no module comes near it

// What a file begins with, in the machine's own order of bytes: it is of this machine.
struct Header {
  std::array<char, 16> magic;
  std::array<uint64_t, 2> digest;
  uint64_t bytes;  // of the code
  std::array<uint64_t, 2> content;
};
static_assert(sizeof(Header) == 56);
constexpr std::array<char, 16> kMagic = {"tunableop code1"};

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Header HeaderOf(const CodeDigest& digest, std::span<const std::byte> code) {
  CodeDigest content;
  content.Add(TextOf(code));
  return {kMagic, digest.value(), code.size(), content.value()};
}

class File {
 public:
  explicit File(int fd) noexcept : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool open() const noexcept { return fd_ >= 0; }
  int fd() const noexcept { return fd_; }
  // 0: done; else errno, as of close too.
  int Close() noexcept {
    const int fd = fd_;
    fd_ = -1;
    return ::close(fd) == 0 ? 0 : errno;
  }

 private:
  int fd_;
};

bool ReadAll(int fd, void* to, size_t bytes) {
  auto* next = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::read(fd, next, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    next += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

// 0 or errno.
int WriteAll(int fd, const void* from, size_t bytes) {
  const auto* next = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = ::write(fd, next, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    next += put;
    bytes -= static_cast<size_t>(put);
  }
  return 0;
}

// What a process that was killed left of a file it was writing.
void RemoveLeftovers(const fs::path& path) {
  constexpr auto kOld = std::chrono::hours(1);  // nobody writes for so long
  const std::string begins = path.filename().string() + ".";
  std::error_code error;
  fs::directory_iterator entry(path.parent_path(), error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(begins)) continue;
    std::error_code inner;
    const auto written = fs::last_write_time(entry->path(), inner);
    if (!inner && fs::file_time_type::clock::now() - written > kOld) {
      fs::remove(entry->path(), inner);
    }
  }
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Status IoError(const std::string& path, int error) {
  return {StatusCode::kIoError, path + ": " + std::generic_category().message(error)};
}

}  // namespace

void CodeDigest::Mix(unsigned char byte) noexcept {
  constexpr uint64_t kPrime = 0x100000001B3;
  low_ = (low_ ^ byte) * kPrime;
  high_ = (high_ ^ byte ^ (low_ >> 56)) * kPrime;
}

void CodeDigest::Add(std::string_view text) noexcept {
  for (const char c : text) Mix(static_cast<unsigned char>(c));
  for (size_t length = text.size(), i = 0; i < sizeof(length); ++i, length >>= 8) {
    Mix(static_cast<unsigned char>(length & 0xFF));
  }
}

std::string CodeDigest::Hex() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const uint64_t half : value()) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[half >> shift & 0xF];
  }
  return text;
}

Result<std::string> CodeCache::DefaultFolder() {
  const std::string chosen = Environment("TUNABLEOP_KERNEL_CACHE");
  if (chosen == kOff) return std::string();
  if (!chosen.empty()) return chosen;
  fs::path base = Environment("XDG_CACHE_HOME");
  if (!base.is_absolute()) {  // to be ignored then, its specification says
    const std::string home = Environment("HOME");
    if (home.empty()) {
      return Status(StatusCode::kNotFound,
                    "neither TUNABLEOP_KERNEL_CACHE, XDG_CACHE_HOME nor HOME is set");
    }
    base = fs::path(home) / ".cache";
  }
  return (base / "onnxruntime-ep-tunableop" / "kernels").string();
}

std::string CodeCache::PathOf(const std::string& name, const CodeDigest& digest) const {
  return (fs::path(folder_) / (name + "-" + digest.Hex() + ".code")).string();
}

std::optional<std::vector<std::byte>> CodeCache::Read(const std::string& name,
                                                      const CodeDigest& digest) const {
  if (folder_.empty()) return std::nullopt;
  const File file(::open(PathOf(name, digest).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about = {};
  if (!file.open() || ::fstat(file.fd(), &about) != 0 || !S_ISREG(about.st_mode)) {
    return std::nullopt;
  }
  const auto size = static_cast<size_t>(about.st_size);
  Header header = {};
  if (size <= sizeof(header) || size > kMostBytes || !ReadAll(file.fd(), &header, sizeof(header))) {
    return std::nullopt;
  }
  std::vector<std::byte> code(size - sizeof(header));
  if (!ReadAll(file.fd(), code.data(), code.size())) return std::nullopt;
  const Header right = HeaderOf(digest, code);
  if (std::memcmp(&header, &right, sizeof(header)) != 0) return std::nullopt;
  return code;
}

Status CodeCache::Write(const std::string& name, const CodeDigest& digest,
                        std::span<const std::byte> code) const {
  if (folder_.empty()) return Status::Ok();
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return IoError(folder_, error.value());
  const std::string path = PathOf(name, digest);
  RemoveLeftovers(path);
  std::string temporary = path + ".XXXXXX";
  File file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.open()) return IoError(folder_, errno);
  const Header header = HeaderOf(digest, code);
  int failed = WriteAll(file.fd(), &header, sizeof(header));
  if (failed == 0) failed = WriteAll(file.fd(), code.data(), code.size());
  // Others may read what is here as they may read what else this user makes.
  if (failed == 0 && ::fchmod(file.fd(), S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH) != 0) {
    failed = errno;
  }
  if (const int closed = file.Close(); failed == 0) failed = closed;
  if (failed == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) failed = errno;
  if (failed == 0) return Status::Ok();
  ::unlink(temporary.c_str());
  return IoError(path, failed);
}

}  // namespace tunableop
