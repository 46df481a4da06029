// Faults that can be switched on, and counters of what was called. Thread-safe.
//
// A specification is "kind[:argument[:argument]],...". core/faults.cc lists the kinds; an unknown
// one ends the process, so that a test cannot pass because of a spelling mistake.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace simgpu {

// The arguments of the fault, when it is on. Several entries of one kind: one of them each.
using FaultArguments = std::vector<int64_t>;

SIM_API bool FaultOn(std::string_view kind);
// Whether the fault is on and one of its entries has no argument or `value` as its first.
SIM_API bool FaultOnFor(std::string_view kind, int64_t value);
// The argument at `position` of the first entry, or `otherwise`.
SIM_API int64_t FaultArgument(std::string_view kind, size_t position, int64_t otherwise);
SIM_API void SetFaults(std::string_view specification);

SIM_API void Count(std::string_view what, int64_t more = 1);
SIM_API int64_t Counted(std::string_view what);
// Since the faults were last set.
SIM_API int64_t CountedWithFaults(std::string_view what);
SIM_API void ResetCounts();
// Something that a real library forgives or answers with a crash. Counted as "misuse" and as
// "misuse:WHAT".
SIM_API void Misuse(std::string_view what);

// Blocks while the fault `kind` is on and Release was not called since.
void Hang(std::string_view kind);
void Release();

}  // namespace simgpu
