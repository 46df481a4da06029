// libhiprtc: what makes code of the texts that core/kernels.h knows.
#include "core/compile_api.h"

using simgpu::CompilerResult;
using simgpu::Number;
using simgpu::Program;

extern "C" {

SIM_API const char* hiprtcGetErrorString(int code) { return simgpu::CompilerWords(true, code); }

// The same in every release.
SIM_API int hiprtcVersion(int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return 0;
}

SIM_API int hiprtcCreateProgram(void** program, const char* source, const char* name, int headers,
                                const char**, const char**) {
  if (headers != 0) return Number(CompilerResult::kInvalidInput);
  return Number(simgpu::MakeProgram(source, name, reinterpret_cast<Program**>(program)));
}
SIM_API int hiprtcDestroyProgram(void** program) {
  return Number(simgpu::DestroyProgram(reinterpret_cast<Program**>(program)));
}
SIM_API int hiprtcCompileProgram(void* program, int count, const char** options) {
  const simgpu::CompilerFlavour flavour{"--offload-arch=", {"-std=c++17", "-O3"}, {}};
  return Number(simgpu::CompileProgram(simgpu::FindProgram(program), flavour, count, options));
}

SIM_API int hiprtcGetCodeSize(void* program, size_t* size) {
  return simgpu::CodeSize(program, false, size);
}
SIM_API int hiprtcGetCode(void* program, char* code) {
  return simgpu::CopyCode(program, false, code);
}
SIM_API int hiprtcGetProgramLogSize(void* program, size_t* size) {
  return simgpu::LogSize(program, size);
}
SIM_API int hiprtcGetProgramLog(void* program, char* log) { return simgpu::CopyLog(program, log); }

}  // extern "C"
