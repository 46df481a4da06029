// How a kernel of a family becomes a function of the host that can be found by its name.
#pragma once

#include <cstddef>

#include "kernels/host.h"
#include "kernels/host_threads.h"

namespace tunableop::device {

struct HostPosition {
  HostGrid grid;
  HostBlock block;
  uint32_t thread = 0;
  uint32_t threads = 1;
  HostThreads* others = nullptr;  // of the same block; null: there are none
};
inline thread_local HostPosition host_position;

// One kernel for one pair of types. Its constructor puts it before `list`, of its source file.
struct HostEntry {
  HostEntry(const HostEntry*& list, std::string_view first, std::string_view second,
            std::string_view entry, HostKernel function, size_t bytes) noexcept
      : t0(first), t1(second), name(entry), kernel(function), args_bytes(bytes), next(list) {
    list = this;
  }

  std::string_view t0;
  std::string_view t1;
  std::string_view name;
  HostKernel kernel;
  size_t args_bytes;
  const HostEntry* next;
};

// Of this source file.
[[maybe_unused]] static const HostEntry* host_entries = nullptr;

template <class Args, void (*kKernel)(const Args&)>
void CallOnHost(const void* args, HostGrid grid, HostBlock index) {
  host_position.grid = grid;
  host_position.block = index;
  kKernel(*static_cast<const Args*>(args));
}

}  // namespace tunableop::device

#define TUNABLEOP_TEXT_OF(text) #text
#define TUNABLEOP_TEXT(text) TUNABLEOP_TEXT_OF(text)
// `name` becomes a function of that name.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define TUNABLEOP_KERNEL(name, Args)                                              \
  static void name(const Args& args);                                             \
  static const HostEntry name##_entry(host_entries, TUNABLEOP_TEXT(TUNABLEOP_T0), \
                                      TUNABLEOP_TEXT(TUNABLEOP_T1), #name,        \
                                      &CallOnHost<Args, &name>, sizeof(Args));    \
  static void name([[maybe_unused]] const Args& args)
// NOLINTEND(bugprone-macro-parentheses)
