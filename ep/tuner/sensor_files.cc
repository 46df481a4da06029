#include "tuner/sensor_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace tunableop::sensor_files {
namespace {

namespace fs = std::filesystem;

// More than any folder of sysfs read here holds.
constexpr int kMaxEntries = 65'536;

class File {
 public:
  // Without O_NONBLOCK a pipe in the place of a file would hold us up for ever.
  explicit File(const char* path) noexcept
      : fd_(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool IsRegular() const noexcept {
    struct stat info = {};
    return fd_ >= 0 && fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
  }
  ssize_t Read(char* data, size_t size) const noexcept {
    ssize_t got = 0;
    do {
      got = read(fd_, data, size);
    } while (got < 0 && errno == EINTR);
    return got;
  }

 private:
  const int fd_;
};

bool IsBlank(char c) noexcept { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

std::optional<std::string> ReadText(const fs::path& path, size_t max_bytes) {
  const File file(path.c_str());
  if (!file.IsRegular()) return std::nullopt;
  std::string text;
  std::array<char, 4096> buffer;
  while (true) {
    const ssize_t got = file.Read(buffer.data(), buffer.size());
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    if (text.size() + static_cast<size_t>(got) > max_bytes) return std::nullopt;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  while (!text.empty() && IsBlank(text.back())) text.pop_back();
  return text;
}

std::optional<double> ToNumber(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> ReadNumber(const fs::path& path, double scale, double lowest,
                                 double highest) {
  const std::optional<std::string> text = ReadText(path);
  const std::optional<double> number = text ? ToNumber(*text) : std::nullopt;
  if (!number) return std::nullopt;
  const double value = *number * scale;
  // NaN fails both.
  if (value >= lowest && value <= highest) return value;
  return std::nullopt;
}

std::vector<fs::path> Numbered(const fs::path& folder, std::string_view prefix,
                               std::string_view suffix) {
  std::vector<std::pair<uint32_t, fs::path>> found;
  std::error_code error;
  int entries = 0;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (++entries > kMaxEntries) break;
    const std::string name = it->path().filename().string();
    if (name.size() <= prefix.size() + suffix.size() || !name.starts_with(prefix) ||
        !name.ends_with(suffix)) {
      continue;
    }
    const char* first = name.data() + prefix.size();
    const char* last = name.data() + name.size() - suffix.size();
    uint32_t number = 0;
    const auto parsed = std::from_chars(first, last, number);
    if (parsed.ec == std::errc() && parsed.ptr == last) found.emplace_back(number, it->path());
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  paths.reserve(found.size());
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::optional<double> ReadCelsius(const fs::path& path) {
  return ReadNumber(path, 1e-3, kLowestCelsius, kHighestCelsius);
}

MachineState FileSensors::Read() const noexcept {
  MachineState state;
  try {
    ReadInto(state);
  } catch (...) {
    return state;
  }
  return state;
}

fs::path RootOr(const fs::path& root) {
  const char* other = std::getenv("TUNABLEOP_SENSORS_ROOT");
  if (root == "/" && other != nullptr && *other != '\0') return other;
  return root;
}

}  // namespace tunableop::sensor_files
