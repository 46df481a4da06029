// Code that is loaded on a card, and launches of the kernels in it: what both vendors' front ends
// come down to.
#pragma once

#include <string>
#include <string_view>

#include "core/error.h"
#include "core/kernels.h"

namespace simgpu {

// What a simulated compiler gives: a text that says what it is of. The first byte is the escape of
// a binary, and the last one a zero, as in a real PTX.
struct Code {
  std::string arch;  // "sm_90", "compute_90", "gfx942"
  std::string family;
  std::string t0;
  std::string t1;
};
SIM_API std::string Pack(const Code& code);

// On the current card. kUnfitImage, kUnfitCard: the code is none, or another card's.
SIM_API Err LoadModule(const void* image, void** module);
SIM_API Err UnloadModule(void* module);
// kNotFound: it has no such kernel. `module` is of any card.
SIM_API Err FindFunction(void* module, const char* name, void** function);
// `parameters`: one struct's address. The addresses of the card in it become those that the host
// can use; one that is of no live allocation is an illegal address. So is a byte written in the
// gap before or after an allocation that the kernel was given.
SIM_API Err LaunchFunction(void* function, Blocks grid, Blocks block, void* stream,
                           void** parameters);

}  // namespace simgpu
