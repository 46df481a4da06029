#include "core/compile.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core/faults.h"
#include "core/kernels.h"
#include "core/modules.h"

namespace simgpu {
namespace {

constexpr std::string_view kFirstLine = "// tunableop module ";

struct State {
  std::mutex mutex;
  std::map<void*, std::unique_ptr<Program>> programs;
};
State& TheState() {
  static auto* const state = new State;
  return *state;
}

// "-DNAME=VALUE" -> VALUE, where NAME is `name`.
bool ValueOf(std::string_view option, std::string_view name, std::string* value) {
  if (!option.starts_with(name)) return false;
  *value = option.substr(name.size());
  return true;
}

// "sm_90", "compute_80" of those that the compiler knows; "gfx" and something.
bool Knows(const std::vector<int>& archs, std::string_view arch, bool* is_virtual) {
  if (archs.empty()) return arch.starts_with("gfx");
  *is_virtual = arch.starts_with("compute_");
  const size_t prefix = *is_virtual ? 8 : 3;
  if (!*is_virtual && !arch.starts_with("sm_")) return false;
  return std::any_of(archs.begin(), archs.end(),
                     [&](int known) { return arch.substr(prefix) == std::to_string(known); });
}

CompilerResult Fail(Program* program, CompilerResult result, std::string log) {
  program->log = std::move(log);
  return result;
}

}  // namespace

const char* CompilerWords(bool amd, int code) {
  switch (static_cast<CompilerResult>(code)) {
    case CompilerResult::kSuccess:
      return amd ? "HIPRTC_SUCCESS" : "NVRTC_SUCCESS";
    case CompilerResult::kOutOfMemory:
      return amd ? "HIPRTC_ERROR_OUT_OF_MEMORY" : "NVRTC_ERROR_OUT_OF_MEMORY";
    case CompilerResult::kInvalidInput:
      return amd ? "HIPRTC_ERROR_INVALID_INPUT" : "NVRTC_ERROR_INVALID_INPUT";
    case CompilerResult::kInvalidProgram:
      return amd ? "HIPRTC_ERROR_INVALID_PROGRAM" : "NVRTC_ERROR_INVALID_PROGRAM";
    case CompilerResult::kInvalidOption:
      return amd ? "HIPRTC_ERROR_INVALID_OPTION" : "NVRTC_ERROR_INVALID_OPTION";
    case CompilerResult::kCompilation:
      return amd ? "HIPRTC_ERROR_COMPILATION" : "NVRTC_ERROR_COMPILATION";
    case CompilerResult::kInternalError:
      break;
  }
  return amd ? "HIPRTC_ERROR_INTERNAL_ERROR" : "NVRTC_ERROR_INTERNAL_ERROR";
}

CompilerResult MakeProgram(const char* source, const char* name, Program** program) {
  if (source == nullptr || program == nullptr) return CompilerResult::kInvalidInput;
  auto made = std::make_unique<Program>();
  made->source = source;
  made->name = name != nullptr ? name : "default_program";
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  *program = made.get();
  state.programs.emplace(made.get(), std::move(made));
  Count("programs");
  return CompilerResult::kSuccess;
}

CompilerResult DestroyProgram(Program** program) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (program == nullptr || state.programs.erase(*program) == 0) {
    return CompilerResult::kInvalidProgram;
  }
  *program = nullptr;
  Count("programs_destroyed");
  return CompilerResult::kSuccess;
}

Program* FindProgram(void* handle) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const auto found = state.programs.find(handle);
  return found != state.programs.end() ? found->second.get() : nullptr;
}

CompilerResult CompileProgram(Program* program, const CompilerFlavour& flavour, int count,
                              const char* const* options) {
  if (program == nullptr) return CompilerResult::kInvalidProgram;
  Count("compiles");
  static std::atomic<int> compiling{0};
  const struct Busy {
    Busy() { Count("compiling_at_once:" + std::to_string(++compiling)); }
    ~Busy() { --compiling; }
  } busy;
  if (FaultOn("compile_slow")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(FaultArgument("compile_slow", 0, 10)));
  }
  Code code;
  for (int i = 0; i < count; ++i) {
    const std::string_view option = options[i];
    if (ValueOf(option, flavour.arch_option, &code.arch)) continue;
    if (ValueOf(option, "-DTUNABLEOP_T0=", &code.t0)) continue;
    if (ValueOf(option, "-DTUNABLEOP_T1=", &code.t1)) continue;
    if (option.starts_with("-D")) continue;
    if (std::find(flavour.flags.begin(), flavour.flags.end(), option) == flavour.flags.end()) {
      return Fail(program, CompilerResult::kInvalidOption,
                  "error: unrecognized option " + std::string(option) + " found\n");
    }
  }
  if (!Knows(flavour.archs, code.arch, &program->is_virtual)) {
    return Fail(program, CompilerResult::kInvalidOption,
                "error: invalid value for " + std::string(flavour.arch_option) + "\n");
  }
  const std::string_view first(program->source.data(),
                               std::min(program->source.find('\n'), program->source.size()));
  if (!ValueOf(first, kFirstLine, &code.family) || code.family.find(' ') != std::string::npos) {
    return Fail(program, CompilerResult::kCompilation,
                program->name + "(1): error: a simulated compiler reads no other texts\n");
  }
  // As the texts have it.
  if (code.t0.empty()) code.t0 = "f32";
  if (code.t1.empty()) code.t1 = code.t0;
  if (FaultOn("compile_fails")) {
    return Fail(program, CompilerResult::kCompilation,
                program->name +
                    "(12): error: identifier \"oops\" is undefined\n\n1 error detected" +
                    " in the compilation of \"" + program->name + "\".\n");
  }
  if (FaultOn("compile_oom")) return CompilerResult::kOutOfMemory;
  if (!HasModule(code.family, code.t0, code.t1)) {
    return Fail(program, CompilerResult::kCompilation,
                program->name + "(1): error: no kernels of " + code.family + " for " + code.t0 +
                    " and " + code.t1 + "\n");
  }
  program->code = Pack(code);
  program->log.clear();
  return CompilerResult::kSuccess;
}

}  // namespace simgpu
