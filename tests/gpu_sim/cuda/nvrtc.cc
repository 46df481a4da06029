// libnvrtc: what makes code of the texts that core/kernels.h knows.
#include <algorithm>
#include <vector>

#include "core/compile_api.h"
#include "core/faults.h"
#include "core/flavour.h"

using simgpu::CompilerResult;
using simgpu::Number;
using simgpu::Program;

namespace {

// Those that the real release has.
std::vector<int> Archs() {
  if (simgpu::FaultOn("old_compiler")) return {75, 80, 86};
  if (simgpu::FaultOn("new_compiler")) return {100, 103, 120};
  if (simgpu::ThisFlavour().runtime_version >= 13000) {
    return {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
  }
  return {50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121};
}

}  // namespace

extern "C" {

SIM_API const char* nvrtcGetErrorString(int code) { return simgpu::CompilerWords(false, code); }

SIM_API int nvrtcVersion(int* major, int* minor) {
  const int version = simgpu::ThisFlavour().runtime_version;
  *major = version / 1000;
  *minor = version % 1000 / 10;
  return 0;
}

SIM_API int nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(Archs().size());
  return 0;
}
SIM_API int nvrtcGetSupportedArchs(int* archs) {
  const std::vector<int> all = Archs();
  std::copy(all.begin(), all.end(), archs);
  return 0;
}

SIM_API int nvrtcCreateProgram(void** program, const char* source, const char* name, int headers,
                               const char* const*, const char* const*) {
  if (headers != 0) return Number(CompilerResult::kInvalidInput);
  return Number(simgpu::MakeProgram(source, name, reinterpret_cast<Program**>(program)));
}
SIM_API int nvrtcDestroyProgram(void** program) {
  return Number(simgpu::DestroyProgram(reinterpret_cast<Program**>(program)));
}
SIM_API int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  const simgpu::CompilerFlavour flavour{
      "--gpu-architecture=", {"--std=c++17", "-default-device", "--fmad=true"}, Archs()};
  return Number(simgpu::CompileProgram(simgpu::FindProgram(program), flavour, count, options));
}

SIM_API int nvrtcGetCUBINSize(void* program, size_t* size) {
  return simgpu::CodeSize(program, false, size);
}
SIM_API int nvrtcGetCUBIN(void* program, char* code) {
  return simgpu::CopyCode(program, false, code);
}
SIM_API int nvrtcGetPTXSize(void* program, size_t* size) {
  return simgpu::CodeSize(program, true, size);
}
SIM_API int nvrtcGetPTX(void* program, char* code) { return simgpu::CopyCode(program, true, code); }
SIM_API int nvrtcGetProgramLogSize(void* program, size_t* size) {
  return simgpu::LogSize(program, size);
}
SIM_API int nvrtcGetProgramLog(void* program, char* log) { return simgpu::CopyLog(program, log); }

}  // extern "C"
