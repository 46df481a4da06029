// The functions that nvrtc and hiprtc have under other names.
#pragma once

#include <cstddef>
#include <cstring>

#include "core/compile.h"

namespace simgpu {

inline int Number(CompilerResult result) { return static_cast<int>(result); }

inline int LogSize(void* handle, size_t* size) {
  const Program* const program = FindProgram(handle);
  if (program == nullptr) return Number(CompilerResult::kInvalidProgram);
  *size = program->log.size() + 1;
  return 0;
}
inline int CopyLog(void* handle, char* log) {
  const Program* const program = FindProgram(handle);
  if (program == nullptr) return Number(CompilerResult::kInvalidProgram);
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return 0;
}
// Of a real architecture, or of a virtual one; of the other kind there is none.
inline int CodeSize(void* handle, bool is_virtual, size_t* size) {
  const Program* const program = FindProgram(handle);
  if (program == nullptr || program->code.empty()) return Number(CompilerResult::kInvalidProgram);
  *size = program->is_virtual == is_virtual ? program->code.size() : 0;
  return 0;
}
inline int CopyCode(void* handle, bool is_virtual, char* code) {
  const Program* const program = FindProgram(handle);
  if (program == nullptr || program->code.empty()) return Number(CompilerResult::kInvalidProgram);
  if (program->is_virtual != is_virtual) return Number(CompilerResult::kInvalidInput);
  std::memcpy(code, program->code.data(), program->code.size());
  return 0;
}

}  // namespace simgpu
