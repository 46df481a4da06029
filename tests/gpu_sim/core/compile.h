// A compiler at run time, as both vendors have it: nvrtc and hiprtc differ in names and options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace simgpu {

// The vendors' numbers, which are the same ones.
enum class CompilerResult {
  kSuccess = 0,
  kOutOfMemory = 1,
  kInvalidInput = 3,
  kInvalidProgram = 4,
  kInvalidOption = 5,
  kCompilation = 6,
  kInternalError = 11,
};
SIM_API const char* CompilerWords(bool amd, int code);

struct Program {
  std::string source;
  std::string name;
  std::string log;
  std::string code;  // empty: not compiled
  bool is_virtual = false;
};

SIM_API CompilerResult MakeProgram(const char* source, const char* name, Program** program);
SIM_API CompilerResult DestroyProgram(Program** program);
// Null: no such program.
SIM_API Program* FindProgram(void* handle);
// `archs`: those it makes code for (NVIDIA's numbers; empty: any). `arch`: the value of the option
// that chooses one, or empty; `others`: the remaining options.
struct CompilerFlavour {
  std::string_view arch_option;
  std::vector<std::string_view> flags;  // that it takes, beside -D
  std::vector<int> archs;
};
SIM_API CompilerResult CompileProgram(Program* program, const CompilerFlavour& flavour, int count,
                                      const char* const* options);

}  // namespace simgpu
