#include "cache/crash_journal.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "cache/atomic_file.h"
#include "cache/journal_page.h"
#include "cache/unique_fd.h"

namespace tunableop {
namespace {

// Other processes that take the same name are other containers with a process of the same number.
constexpr int kMostNames = 10'000;

Status CannotCreate(const std::string& name, const char* action, int error) {
  return {StatusCode::kIoError,
          name + ": cannot " + action + ": " + std::generic_category().message(error)};
}

// The journals that are open in this process, for what must be done to them at a fork and at exit.
// Slots and not a list under a mutex: what runs there may wait for nobody. Never destroyed.
struct Slot {
  std::atomic<void*> page{nullptr};  // null: free
  std::atomic<int> fd{-1};           // whoever exchanges it for -1 may use `page`
  std::atomic<pthread_t> caller;     // the thread that entered the last call
};
// Journals beyond these are left alone at forks and exits.
constexpr size_t kSlots = 256;
std::array<Slot, kSlots>& Slots() {
  static std::array<Slot, kSlots> slots;
  return slots;
}

// A child forked without exec shares the lock and the mapping: the lock would outlive its owner,
// and the child's calls would be told as the parent's. So the child lets go of both at once.
void LetGoInChild() {
  for (Slot& slot : Slots()) {
    const int fd = slot.fd.exchange(-1, std::memory_order_acq_rel);
    if (fd < 0) continue;
    // Private memory in the mapping's place: stores of the child go on, and tell nobody. Where
    // there is no memory, a child that is in a call at this very moment may tell of it; nothing
    // breaks.
    const void* replaced =
        ::mmap(slot.page.load(std::memory_order_relaxed), sizeof(JournalPage),
               PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    static_cast<void>(replaced);
    ::close(fd);  // not LOCK_UN, which would take the parent's lock
  }
}

// A process that ends by itself while another thread measures was not killed by the kernel there.
// One that ends on the very thread that is in a call was: some libraries call exit().
void ExonerateAtExit() {
  for (Slot& slot : Slots()) {
    if (slot.fd.exchange(-1, std::memory_order_acq_rel) < 0) continue;
    auto* page = static_cast<JournalPage*>(slot.page.load(std::memory_order_relaxed));
    const bool in_call = std::atomic_ref(page->current).load(std::memory_order_acquire) != kNoCall;
    if (in_call && ::pthread_equal(slot.caller.load(), ::pthread_self()) != 0) continue;
    std::atomic_ref(page->ended).store(1, std::memory_order_release);
  }
}

// Null: all are taken.
Slot* TakeSlot(int fd, void* page) {
  static const bool registered =
      ::pthread_atfork(nullptr, nullptr, &LetGoInChild) == 0 && std::atexit(&ExonerateAtExit) == 0;
  if (!registered) return nullptr;
  for (Slot& slot : Slots()) {
    void* none = nullptr;
    if (slot.page.compare_exchange_strong(none, page)) {
      slot.fd.store(fd, std::memory_order_release);
      return &slot;
    }
  }
  return nullptr;
}

// An empty file that this process holds the lock of, and that is still in the folder.
Result<std::pair<UniqueFd, std::string>> CreateLocked(const JournalPlace& place) {
  const std::string start = place.folder + place.prefix + std::to_string(::getpid()) + ".";
  for (int number = 0; number < kMostNames; ++number) {
    std::string name = start + std::to_string(number);
    UniqueFd fd(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (fd.get() < 0 && errno == EEXIST) continue;
    if (fd.get() < 0) return CannotCreate(name, "create", errno);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      // Somebody who collects was faster, and takes the empty file away.
      if (errno == EWOULDBLOCK) continue;
      const int error = errno;
      ::unlink(name.c_str());
      return CannotCreate(name, "lock", error);
    }
    struct stat info;
    if (::fstat(fd.get(), &info) != 0 || info.st_nlink == 0) continue;  // faster still
    return std::pair{std::move(fd), std::move(name)};
  }
  return CannotCreate(start + "*", "create", EEXIST);
}

// 0, or an errno.
int Allocate(int fd) {
  // Beyond the limit the system would not only refuse but send SIGXFSZ.
  rlimit limit;
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < sizeof(JournalPage)) return EFBIG;
  int error = 0;
  do {
    error = ::posix_fallocate(fd, 0, sizeof(JournalPage));
  } while (error == EINTR);
  return error;
}

template <size_t N>
void Write(JournalText<N>& to, std::string_view text) {
  const size_t size = std::min(text.size(), N);
  text.copy(to.bytes.data(), size);
  to.size = static_cast<uint32_t>(size);
}

}  // namespace

// One open, locked and mapped file; closed and removed at the end.
class JournalFile {
 public:
  static Result<std::unique_ptr<JournalFile>> Create(const JournalPlace& place) {
    auto created = CreateLocked(place);
    if (!created.ok()) return created.TakeStatus();
    auto& [fd, name] = created.value();
    const auto fail = [&](const char* action, int error) {
      ::unlink(name.c_str());
      return CannotCreate(name, action, error);
    };
    if (const int error = Allocate(fd.get()); error != 0) return fail("allocate", error);
    void* memory =
        ::mmap(nullptr, sizeof(JournalPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (memory == MAP_FAILED) return fail("map", errno);
    return std::unique_ptr<JournalFile>(new JournalFile(std::move(fd), std::move(name), memory));
  }

  ~JournalFile() {
    const bool taken = slot_ != nullptr && slot_->fd.exchange(-1, std::memory_order_acq_rel) < 0;
    // At a fork it was closed there; at exit it may as well stay open.
    if (taken) static_cast<void>(fd_.Release());
    if (Mine()) ::unlink(name_.c_str());
    if (taken && Mine()) return;  // the exit's handler may be writing to the page now
    ::munmap(page_, sizeof(JournalPage));
    if (slot_ != nullptr) slot_->page.store(nullptr, std::memory_order_release);
  }
  JournalFile(const JournalFile&) = delete;
  JournalFile& operator=(const JournalFile&) = delete;

  JournalPage& page() { return *page_; }
  // False in a forked child.
  bool Mine() const { return ::getpid() == pid_; }
  void SetCaller() {
    if (slot_ != nullptr) slot_->caller.store(::pthread_self(), std::memory_order_relaxed);
  }

 private:
  JournalFile(UniqueFd fd, std::string name, void* memory)
      : fd_(std::move(fd)),
        name_(std::move(name)),
        page_(static_cast<JournalPage*>(memory)),
        pid_(::getpid()) {
    page_->version = kJournalVersion;
    page_->boot = BootId();
    page_->current = kNoCall;
    page_->magic = kJournalMagic;
    // Last: from here on an exit on another thread reads the page and writes to it.
    slot_ = TakeSlot(fd_.get(), memory);
  }

  UniqueFd fd_;
  std::string name_;
  JournalPage* page_;
  pid_t pid_;
  Slot* slot_ = nullptr;
};

struct CrashJournal::Impl {
  JournalPlace place;
  std::unique_ptr<JournalFile> file;
  JournalPage* page = nullptr;
  std::vector<std::string> names;  // of the candidates, in full
  size_t named = SIZE_MAX;         // whose name the page holds
  uint64_t calls = 0;
};

CrashJournal::CrashJournal(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CrashJournal::~CrashJournal() = default;

Result<std::unique_ptr<CrashJournal>> CrashJournal::Create(const std::filesystem::path& cache) {
  auto impl = std::make_unique<Impl>();
  impl->place = PlaceOfJournals(cache.string());
  auto file = JournalFile::Create(impl->place);
  if (!file.ok()) return file.TakeStatus();
  impl->file = std::move(file).value();
  impl->page = &impl->file->page();
  return std::unique_ptr<CrashJournal>(new CrashJournal(std::move(impl)));
}

void CrashJournal::Begin(const Problem& problem, std::span<const Candidate> candidates) noexcept {
  Impl& impl = *impl_;
  End();
  try {
    if (!impl.file->Mine()) {
      // Forked: what this process tries is a file of its own. Where none can be made, the old one's
      // memory is private and does no harm.
      if (auto file = JournalFile::Create(impl.place); file.ok()) {
        impl.file = std::move(file).value();
        impl.page = &impl.file->page();
      }
    }
    Write(impl.page->problem, ToString(problem));
    for (const Candidate& candidate : candidates) impl.names.push_back(candidate.FullName());
  } catch (...) {
    impl.names.clear();  // no memory: this problem is measured without a journal
  }
}

void CrashJournal::Enter(size_t index) noexcept {
  Impl& impl = *impl_;
  if (index >= impl.names.size()) return;
  if (index != impl.named) {
    Write(impl.page->name, impl.names[index]);
    impl.named = index;
  }
  impl.file->SetCaller();
  std::atomic_ref(impl.page->calls).store(++impl.calls, std::memory_order_relaxed);
  std::atomic_ref(impl.page->current).store(static_cast<int64_t>(index), std::memory_order_release);
  // Death happens on this thread: the compiler must not move the call before the stores.
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

void CrashJournal::Leave() noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::atomic_ref(impl_->page->current).store(kNoCall, std::memory_order_release);
}

void CrashJournal::End() noexcept {
  Leave();
  impl_->names.clear();
  impl_->named = SIZE_MAX;
}

}  // namespace tunableop
