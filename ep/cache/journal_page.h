// What a journal file holds: one page, written by the process that measures and read by others
// after its death (cache/crash_journal.h). Private to the journal.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace tunableop {

inline constexpr std::array<char, 8> kJournalMagic = {'T', 'U', 'N', 'T', 'R', 'Y', '\n', '\0'};
inline constexpr uint32_t kJournalVersion = 1;
inline constexpr int64_t kNoCall = -1;

// Text of at most N bytes; longer text is cut. Vendors' kernel names reach some 700 bytes.
template <size_t N>
struct JournalText {
  uint32_t size;
  std::array<char, N> bytes;
};

// Only one candidate is named at a time, the one that is called: so their number has no limit.
struct JournalPage {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t ended;  // atomic: 1 when the process ended by itself, which accuses nobody either
  // Of the kernel's boot: what a page holds when the machine itself went down is what happened to
  // be written back, and accuses nobody.
  std::array<char, 40> boot;
  uint64_t calls;   // atomic: calls entered so far
  int64_t current;  // atomic: index of the candidate that is being called, or kNoCall
  JournalText<508> problem;
  JournalText<3508> name;  // Candidate::FullName()
};
static_assert(sizeof(JournalPage) == 4096);
static_assert(std::is_trivially_copyable_v<JournalPage>);

// Of this boot of the machine; all zeros where the system does not say.
std::array<char, 40> BootId();

// "model.tune.json.trying." and the folder that the journals of `cache` lie in. A symbolic link is
// followed, as saving does, so that all users of one file meet in one folder.
struct JournalPlace {
  std::string folder;  // ends with '/'
  std::string prefix;
};
JournalPlace PlaceOfJournals(const std::string& cache);

}  // namespace tunableop
