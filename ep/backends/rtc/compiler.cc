#include "backends/rtc/compiler.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "backends/gpu/card_info.h"
#include "backends/rtc/compiler_api.h"

namespace tunableop {
namespace {

constexpr size_t kLogBytes = 2000;  // of a message, which a person is to read

struct Named {
  int major;
  const char* soname;
};
constexpr Named kNvrtc[] = {
    {13, "libnvrtc.so.13"}, {12, "libnvrtc.so.12"}, {11, "libnvrtc.so.11.2"}};
// hiprtc is part of HIP, and one of another release is none for its runtime.
constexpr Named kHiprtc[] = {{7, "libhiprtc.so.7"}, {6, "libhiprtc.so.6"}};

// Names to look for, the best first.
std::vector<const char*> SonamesFor(Vendor vendor, const DeviceInfo& info) {
  const int runtime = MajorOf(vendor, info.runtime_version);
  std::vector<const char*> names;
  if (vendor == Vendor::kAmd) {
    for (const Named& one : kHiprtc) {
      if (one.major == runtime) names.push_back(one.soname);
    }
    return names;
  }
  // A driver runs code of its own release and of older ones.
  const int driver = info.driver_version > 0 ? MajorOf(vendor, info.driver_version) : runtime;
  for (const Named& one : kNvrtc) {
    if (one.major == runtime) names.push_back(one.soname);
  }
  for (const Named& one : kNvrtc) {
    if (one.major != runtime && one.major <= std::max(driver, runtime)) {
      names.push_back(one.soname);
    }
  }
  return names;
}

// "sm_90" -> 90; 0: it is none.
int NumberOf(std::string_view arch) noexcept {
  constexpr std::string_view kPrefix = "sm_";
  int number = 0;
  if (!arch.starts_with(kPrefix)) return 0;
  std::from_chars(arch.data() + kPrefix.size(), arch.data() + arch.size(), number);
  return number;
}

// Releases that are not told apart by their version are by their size.
std::string SizeOf(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? "" : ", " + std::to_string(bytes) + " bytes";
}

}  // namespace

Result<Compiler> Compiler::Find(const Device& device) {
  const Vendor vendor = device.backend() == "cuda" ? Vendor::kNvidia : Vendor::kAmd;
  const std::vector<const char*> sonames = SonamesFor(vendor, device.info());
  Result<VendorLibrary> library = VendorLibrary::Load(vendor, sonames);
  if (!library.ok()) return library.TakeStatus();
  Result<CompilerApi> api = CompilerApi::Bind(vendor, library.value());
  if (!api.ok()) return api.TakeStatus();
  Compiler compiler(std::move(library).value(), std::make_shared<const CompilerApi>(api.value()));
  TUNABLEOP_RETURN_IF_ERROR(compiler.AimAt(device));
  return compiler;
}

Status Compiler::AimAt(const Device& device) {
  const DeviceInfo& info = device.info();
  int major = 0;
  int minor = 0;
  TUNABLEOP_RETURN_IF_ERROR(Check(api_->Version(&major, &minor), "asking for its version"));
  const std::string version = std::to_string(major) + "." + std::to_string(minor);
  if (device.backend() != "cuda") {
    // hiprtc's own version is the same in many releases of ROCm.
    identity_ =
        "hiprtc " + version + " of HIP " + std::to_string(info.runtime_version) + SizeOf(path());
    if (info.arch.empty()) return {StatusCode::kNotSupported, "the card does not say what it is"};
    options_ = {"--offload-arch=" + info.arch, "-std=c++17", "-O3"};
    return Status::Ok();
  }
  identity_ = "nvrtc " + version + SizeOf(path());
  const int card = NumberOf(info.arch);
  if (card == 0) return {StatusCode::kNotSupported, "the card does not say what it is"};
  std::string arch = info.arch;
  int count = 0;
  if (api_->GetNumSupportedArchs != nullptr && api_->GetSupportedArchs != nullptr &&
      api_->GetNumSupportedArchs(&count) == compiler_code::kSuccess && count > 0) {
    std::vector<int> known(static_cast<size_t>(count));
    TUNABLEOP_RETURN_IF_ERROR(
        Check(api_->GetSupportedArchs(known.data()), "asking for its architectures"));
    std::sort(known.begin(), known.end());
    const auto above = std::upper_bound(known.begin(), known.end(), card);
    if (above == known.begin()) {
      return {StatusCode::kNotSupported, path() + " (" + version + ") makes no code for " + arch +
                                             ": sm_" + std::to_string(known.front()) +
                                             " is the oldest it knows"};
    }
    const int newest = *std::prev(above);
    ptx_ = newest != card && api_->GetPtx != nullptr && api_->GetPtxSize != nullptr;
    if (ptx_) arch = "compute_" + std::to_string(newest);
  }
  options_ = {"--gpu-architecture=" + arch, "--std=c++17", "-default-device", "--fmad=true"};
  return Status::Ok();
}

std::vector<std::string> Compiler::Options(const std::vector<std::string>& macros) const {
  std::vector<std::string> options = options_;
  for (const std::string& macro : macros) options.push_back("-D" + macro);
  return options;
}

Status Compiler::Check(int code, const std::string& what) const {
  if (code == compiler_code::kSuccess) return Status::Ok();
  return {
      code == compiler_code::kOutOfMemory ? StatusCode::kOutOfMemory : StatusCode::kNotSupported,
      path() + ": " + what + ": " + api_->Words(code)};
}

std::string Compiler::LogOf(void* program) const {
  size_t size = 0;
  if (api_->GetProgramLogSize(program, &size) != compiler_code::kSuccess || size <= 1) return "";
  std::string log(size, '\0');
  if (api_->GetProgramLog(program, log.data()) != compiler_code::kSuccess) return "";
  log.resize(std::min(log.find('\0'), log.size()));
  while (!log.empty() && (log.back() == '\n' || log.back() == ' ')) log.pop_back();
  if (log.size() > kLogBytes) log = log.substr(0, kLogBytes) + " ...";
  return log;
}

Result<std::vector<std::byte>> Compiler::Compile(const std::string& name, std::string_view source,
                                                 const std::vector<std::string>& options) const {
  const std::string text(source);  // with a zero at its end
  void* program = nullptr;
  TUNABLEOP_RETURN_IF_ERROR(
      Check(api_->CreateProgram(&program, text.c_str(), name.c_str(), 0, nullptr, nullptr),
            "reading " + name));
  const auto destroy = [this](void** owned) { api_->DestroyProgram(owned); };
  const std::unique_ptr<void*, decltype(destroy)> owner(&program, destroy);
  std::vector<const char*> given;
  given.reserve(options.size());
  for (const std::string& option : options) given.push_back(option.c_str());
  Status status = Check(api_->CompileProgram(program, static_cast<int>(given.size()), given.data()),
                        "compiling " + name);
  if (!status.ok()) {
    const std::string log = LogOf(program);
    return Status(status.code(), std::string(status.message()) + (log.empty() ? "" : "\n" + log));
  }
  size_t size = 0;
  TUNABLEOP_RETURN_IF_ERROR(Check((ptx_ ? api_->GetPtxSize : api_->GetCodeSize)(program, &size),
                                  "asking for the code of " + name));
  std::vector<std::byte> code(size);
  TUNABLEOP_RETURN_IF_ERROR(
      Check((ptx_ ? api_->GetPtx : api_->GetCode)(program, reinterpret_cast<char*>(code.data())),
            "taking the code of " + name));
  if (code.empty()) {
    return Status(StatusCode::kNotSupported, path() + ": compiling " + name + " gave no code");
  }
  return code;
}

}  // namespace tunableop
