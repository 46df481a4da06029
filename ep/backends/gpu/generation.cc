#include "backends/gpu/generation.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "backends/gpu/card_info.h"

namespace tunableop {
namespace {

int DriverVersion(const RuntimeApi& api) {
  int version = 0;
  if (api.DriverGetVersion(&version) == runtime_code::kSuccess) return version;
  api.GetLastError();
  return 0;
}

int RuntimeVersion(const RuntimeApi& api) {
  int version = 0;
  if (api.RuntimeGetVersion(&version) == runtime_code::kSuccess) return version;
  api.GetLastError();
  return 0;
}

// For a person. `code` is what asking for the cards gave.
std::string WhyUnusable(const VendorTable& table, const Generation& generation, int code) {
  if (code == runtime_code::kSuccess || code == runtime_code::kNoDevice) {
    std::string text = "no card";
    const char* visible = std::getenv(table.visible);
    if (visible != nullptr) text += std::string(" (") + table.visible + " is '" + visible + "')";
    return text;
  }
  if (code != runtime_code::kInsufficientDriver) return generation.api.Words(code);
  const int driver = DriverVersion(generation.api);
  if (driver == 0) return "no driver is loaded (" + generation.api.Words(code) + ")";
  return "the driver (" + VersionText(table.vendor, driver) + ") is older than the runtime (" +
         VersionText(table.vendor, generation.version) +
         "): update the driver, or install a runtime of " +
         std::to_string(MajorOf(table.vendor, driver)) + ".x";
}

// The place of a runtime's version among the generations. Its own word counts, not its file's name:
// packages rename files.
std::optional<size_t> IndexOf(const VendorTable& table, int version) {
  const auto major =
      std::find(table.majors.begin(), table.majors.end(), MajorOf(table.vendor, version));
  if (major == table.majors.end()) return std::nullopt;
  return major - table.majors.begin();
}

// The GEMM libraries of one generation, as Generation has them.
struct GemmFiles {
  std::vector<std::optional<VendorLibrary>> libraries;
  std::vector<std::string> reasons;
};

GemmFiles LoadGemmLibraries(const VendorTable& table, size_t index) {
  GemmFiles files;
  for (const GemmLibrary& library : table.libraries) {
    Result<VendorLibrary> loaded =
        VendorLibrary::Load(table.vendor, std::span(&library.sonames[index], 1));
    files.reasons.emplace_back(loaded.ok() ? "" : loaded.status().message());
    files.libraries.push_back(loaded.ok() ? std::optional(std::move(loaded).value())
                                          : std::nullopt);
  }
  return files;
}

// It would be hundreds of megabytes for nothing where there are none.
bool MayHaveCards(const VendorTable& table) {
  if (table.driver != nullptr) return VendorLibrary::Load(table.vendor, {&table.driver, 1}).ok();
  std::error_code error;
  return std::filesystem::exists(table.device_file, error);
}

// Loads them (80 ms for cublasLt) while the driver begins (100 ms), where there seem to be cards.
// The driver's library is loaded before: the loader would let it wait.
class LoadingAhead {
 public:
  LoadingAhead(const VendorTable& table, size_t index) : table_(table), index_(index) {
    if (!MayHaveCards(table)) return;
    try {
      thread_ = std::thread([this]() noexcept {
        try {
          files_ = LoadGemmLibraries(table_, index_);
        } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): Take loads them
        }
      });
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): the same
    }
  }
  ~LoadingAhead() {
    if (thread_.joinable()) thread_.join();
  }
  LoadingAhead(const LoadingAhead&) = delete;
  LoadingAhead& operator=(const LoadingAhead&) = delete;

  GemmFiles Take() {
    if (thread_.joinable()) thread_.join();
    return files_ ? *std::move(files_) : LoadGemmLibraries(table_, index_);
  }

 private:
  const VendorTable& table_;
  const size_t index_;
  std::optional<GemmFiles> files_;
  std::thread thread_;
};

}  // namespace

void AppendReason(std::string& reasons, std::string_view more) {
  if (!reasons.empty() && !more.empty()) reasons += "; ";
  reasons += more;
}

std::optional<Generation> ChooseGeneration(const VendorTable& table, std::string& why) {
  std::optional<Generation> without_library;
  std::vector<const char*> sonames = table.sonames;  // those not tried yet
  while (!sonames.empty()) {
    Result<VendorLibrary> runtime = VendorLibrary::Load(table.vendor, sonames);
    if (!runtime.ok()) {
      if (why.empty()) why = runtime.status().message();
      break;
    }
    const std::string path = runtime.value().path();
    Result<RuntimeApi> api = RuntimeApi::Bind(table.vendor, runtime.value());
    if (!api.ok()) {
      AppendReason(why, api.status().message());
      break;
    }
    const int version = RuntimeVersion(api.value());
    const std::optional<size_t> index = IndexOf(table, version);
    const auto tried = std::find(sonames.begin(), sonames.end(),
                                 index.has_value() ? table.sonames[*index] : nullptr);
    if (tried == sonames.end()) {  // or it would be found for ever
      AppendReason(why, path + " is of version " + VersionText(table.vendor, version));
      break;
    }
    sonames.erase(tried);

    Generation generation{.index = *index,
                          .runtime = std::move(runtime).value(),
                          .api = api.value(),
                          .version = version,
                          .libraries = {},
                          .reasons = {}};
    LoadingAhead ahead(table, *index);
    const int code = generation.api.GetDeviceCount(&generation.cards);
    if (code != runtime_code::kSuccess || generation.cards <= 0) {
      generation.api.GetLastError();
      AppendReason(why, path + ": " + WhyUnusable(table, generation, code));
      // An older one may do with this driver.
      if (code != runtime_code::kInsufficientDriver || DriverVersion(generation.api) == 0) break;
      continue;
    }
    GemmFiles files = ahead.Take();
    generation.libraries = std::move(files.libraries);
    generation.reasons = std::move(files.reasons);
    const bool any = std::any_of(generation.libraries.begin(), generation.libraries.end(),
                                 [](const auto& library) { return library.has_value(); });
    if (any) return generation;
    if (!without_library.has_value()) without_library = std::move(generation);
  }
  return without_library;
}

}  // namespace tunableop
