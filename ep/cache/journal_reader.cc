// What others read of a journal: the dead's last calls, and the living's present one.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/atomic_file.h"
#include "cache/crash_journal.h"
#include "cache/journal_page.h"
#include "cache/unique_fd.h"

namespace tunableop {
namespace {

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};
using Folder = std::unique_ptr<DIR, CloseDir>;

bool AllDigits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// "<prefix><pid>.<number>": the pid, as text. Other files are none of ours, whatever they hold.
std::optional<std::string> PidOfName(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  if (!AllDigits(name.substr(0, dot)) || !AllDigits(name.substr(dot + 1))) return std::nullopt;
  return std::string(name.substr(0, dot));
}

struct Found {
  std::string name;
  std::string pid;
};

std::vector<Found> JournalsIn(DIR* dir, std::string_view prefix) {
  std::vector<Found> found;
  while (const dirent* entry = ::readdir(dir)) {
    if (auto pid = PidOfName(entry->d_name, prefix)) found.push_back({entry->d_name, *pid});
  }
  return found;
}

// A regular file, or none: never follows a link and never waits for a FIFO.
UniqueFd OpenJournal(int dir, const std::string& name) {
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  int fd = ::openat(dir, name.c_str(), O_RDWR | kFlags);
  // Another user's: enough to lock it, but for NFS.
  if (fd < 0 && (errno == EACCES || errno == EROFS)) {
    fd = ::openat(dir, name.c_str(), O_RDONLY | kFlags);
  }
  UniqueFd file(fd);
  struct stat info;
  if (fd < 0 || ::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return UniqueFd();
  return file;
}

// Read and not mapped: a file cut short is then a short read and not a SIGBUS.
std::optional<JournalPage> ReadPage(int fd) {
  JournalPage page;
  auto* bytes = reinterpret_cast<char*>(&page);
  size_t have = 0;
  while (have < sizeof page) {
    const ssize_t got = ::pread(fd, bytes + have, sizeof page - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    have += static_cast<size_t>(got);
  }
  if (page.magic != kJournalMagic || page.version != kJournalVersion) return std::nullopt;
  return page;
}

// Nothing when the bytes cannot be what a journal wrote.
template <size_t N>
std::optional<std::string> Read(const JournalText<N>& text) {
  if (text.size == 0 || text.size > N) return std::nullopt;
  std::string read(text.bytes.data(), text.size);
  const bool printable = std::ranges::all_of(read, [](char c) { return c >= ' ' && c <= '~'; });
  return printable ? std::optional(std::move(read)) : std::nullopt;
}

// The call that the page shows, if it shows one.
std::optional<Death> CallIn(const JournalPage& page) {
  if (page.current < 0 || page.ended != 0) return std::nullopt;
  const auto name = Read(page.name);
  auto problem = Read(page.problem);
  const size_t colon = name ? name->find(':') : std::string::npos;
  if (!problem || colon == std::string::npos) return std::nullopt;
  return Death{name->substr(0, colon), name->substr(colon + 1), std::move(*problem),
               page.current == 0};
}

// Precondition: the caller holds the file's lock, without which nobody removes or replaces it.
bool Remove(int dir, const std::string& name, int fd) {
  struct stat mine;
  struct stat there;
  if (::fstat(fd, &mine) != 0 || mine.st_nlink == 0) return false;  // somebody was faster
  if (::fstatat(dir, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) return false;
  if (mine.st_ino != there.st_ino || mine.st_dev != there.st_dev) return false;
  return ::unlinkat(dir, name.c_str(), 0) == 0;
}

// Calls `visit` with the descriptor of each journal of `pid`, and whether its lock is held. The
// lock is tried for a moment: who collects just then leaves the file to the next one who does.
template <typename Visit>
void ForEachOf(const std::filesystem::path& cache, int64_t pid, const Visit& visit) {
  const JournalPlace place = PlaceOfJournals(cache.string());
  const Folder folder(::opendir(place.folder.c_str()));
  if (folder == nullptr) return;
  for (const Found& found : JournalsIn(folder.get(), place.prefix)) {
    if (found.pid != std::to_string(pid)) continue;
    const UniqueFd fd = OpenJournal(::dirfd(folder.get()), found.name);
    if (fd.get() >= 0) visit(fd.get(), ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0);
  }
}

}  // namespace

std::array<char, 40> BootId() {
  std::array<char, 40> id{};
  const UniqueFd fd(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (fd.get() >= 0 && ::read(fd.get(), id.data(), id.size() - 1) < 0) id.fill('\0');
  return id;
}

JournalPlace PlaceOfJournals(const std::string& cache) {
  const auto resolved = ResolveLinks(cache);
  const std::string& path = resolved.ok() ? resolved.value() : cache;
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"./", path + ".trying."};
  return {path.substr(0, slash + 1), path.substr(slash + 1) + ".trying."};
}

std::vector<Death> CollectDeaths(const std::filesystem::path& cache) {
  std::vector<Death> deaths;
  const JournalPlace place = PlaceOfJournals(cache.string());
  const Folder folder(::opendir(place.folder.c_str()));
  if (folder == nullptr) return deaths;
  const int dir = ::dirfd(folder.get());
  const std::array<char, 40> boot = BootId();
  for (const Found& found : JournalsIn(folder.get(), place.prefix)) {
    const UniqueFd fd = OpenJournal(dir, found.name);
    if (fd.get() < 0 || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
    const std::optional<JournalPage> page = ReadPage(fd.get());
    // One that cannot be removed would be told again and again, so it is not told at all.
    if (!Remove(dir, found.name, fd.get()) || !page || page->boot != boot) continue;
    if (auto death = CallIn(*page)) deaths.push_back(std::move(*death));
  }
  return deaths;
}

Result<Progress> WatchJournal(const std::filesystem::path& cache, int64_t pid) {
  bool any = false;
  Progress progress;
  ForEachOf(cache, pid, [&](int fd, bool alive) {
    if (!alive) return;  // of a dead process that had this number before
    const std::optional<JournalPage> page = ReadPage(fd);
    // Names change between calls only, so that one call seen before and after is one whole name.
    const std::optional<JournalPage> again = ReadPage(fd);
    if (!page || !again) return;
    any = true;
    progress.calls += again->calls;
    if (page->calls != again->calls || page->current != again->current) return;
    if (auto call = CallIn(*page)) {
      progress.in_call = true;
      progress.current = std::move(*call);
    }
  });
  if (any) return progress;
  return Status(StatusCode::kNotFound,
                "process " + std::to_string(pid) + " holds no journal beside " + cache.string());
}

Result<Death> LastCall(const std::filesystem::path& cache, int64_t pid) {
  const std::array<char, 40> boot = BootId();
  std::optional<Death> last;
  ForEachOf(cache, pid, [&](int fd, bool alive) {
    const std::optional<JournalPage> page = alive ? std::nullopt : ReadPage(fd);
    if (!page || page->boot != boot) return;
    if (auto call = CallIn(*page)) last = std::move(*call);
  });
  if (last) return std::move(*last);
  return Status(StatusCode::kNotFound,
                "process " + std::to_string(pid) + " left no call beside " + cache.string());
}

}  // namespace tunableop
