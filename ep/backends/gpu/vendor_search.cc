#include "backends/gpu/vendor_search.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

namespace tunableop {
namespace {

namespace fs = std::filesystem;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Any symbol of this file will do.
std::string OwnLibrary() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&OwnSurroundings), &info) == 0) return "";
  return info.dli_fname != nullptr ? info.dli_fname : "";
}

VendorSurroundings ReadSurroundings(Vendor vendor) {
  VendorSurroundings surroundings;
  surroundings.chosen = Environment(ChosenVariable(vendor));
  if (vendor == Vendor::kNvidia) {
    surroundings.installs = {Environment("CUDA_PATH"), Environment("CUDA_HOME")};
  } else {
    surroundings.installs = {Environment("ROCM_PATH"), Environment("ROCM_HOME")};
  }
  surroundings.own_library = OwnLibrary();
  return surroundings;
}

// "cuda-12.10" -> {12, 10}.
std::vector<long> NumbersIn(std::string_view text) {
  std::vector<long> numbers;
  bool inside = false;
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) {
      inside = false;
      continue;
    }
    if (!inside) numbers.push_back(0);
    inside = true;
    if (numbers.back() < 1'000'000'000) numbers.back() = numbers.back() * 10 + (c - '0');
  }
  return numbers;
}

// Those in `parent` whose name begins so: the one without a version first, which is what whoever
// installed it wants used; then the newest.
std::vector<fs::path> Beginning(const fs::path& parent, std::string_view prefix) {
  std::vector<std::pair<std::vector<long>, fs::path>> found;
  std::error_code error;
  fs::directory_iterator entry(parent, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(prefix)) found.emplace_back(NumbersIn(name), entry->path());
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    if (a.first.empty() != b.first.empty()) return a.first.empty();
    if (a.first != b.first) return a.first > b.first;
    return a.second < b.second;
  });
  std::vector<fs::path> paths;
  paths.reserve(found.size());
  for (auto& [version, path] : found) paths.push_back(std::move(path));
  return paths;
}

class Folders {
 public:
  // Once, and only when it exists.
  void Add(const fs::path& folder) {
    std::error_code error;
    if (folder.empty() || !fs::is_directory(folder, error)) return;
    std::string name = folder.lexically_normal().string();
    if (name.size() > 1 && name.back() == '/') name.pop_back();
    if (std::find(folders_.begin(), folders_.end(), name) == folders_.end()) {
      folders_.push_back(std::move(name));
    }
  }
  void AddInstall(const fs::path& install) {
    if (install.empty()) return;
    Add(install / "lib64");
    Add(install / "lib");
    for (const fs::path& target : Beginning(install / "targets", "")) Add(target / "lib");
  }
  std::vector<std::string> Take() { return std::move(folders_); }

 private:
  std::vector<std::string> folders_;
};

// What comes before ".so": "libcudart".
std::string_view StemOf(std::string_view name) noexcept { return name.substr(0, name.find(".so")); }

bool IsHash(std::string_view text) noexcept {
  return text.size() >= 6 && std::all_of(text.begin(), text.end(),
                                         [](unsigned char c) { return std::isxdigit(c) != 0; });
}

// "13.0.48" is a 13; "130" is none.
bool IsVersion(std::string_view text, std::string_view version) noexcept {
  return text.starts_with(version) &&
         (text.size() == version.size() || text[version.size()] == '.');
}

}  // namespace

const VendorSurroundings& OwnSurroundings(Vendor vendor) {
  static const auto& nvidia = *new VendorSurroundings(ReadSurroundings(Vendor::kNvidia));
  static const auto& amd = *new VendorSurroundings(ReadSurroundings(Vendor::kAmd));
  return vendor == Vendor::kNvidia ? nvidia : amd;
}

const char* ChosenVariable(Vendor vendor) noexcept {
  return vendor == Vendor::kNvidia ? "TUNABLEOP_CUDA_PATH" : "TUNABLEOP_ROCM_PATH";
}

std::vector<std::string> ChosenFolders(const VendorSurroundings& surroundings) {
  Folders folders;
  std::string_view rest = surroundings.chosen;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (one.empty()) continue;
    const fs::path folder(one);
    folders.Add(folder);
    folders.Add(folder / "lib");
    folders.Add(folder / "lib64");
  }
  return folders.Take();
}

std::vector<std::string> InstallFolders(Vendor vendor, const VendorSurroundings& surroundings) {
  Folders folders;
  for (const std::string& install : surroundings.installs) folders.AddInstall(install);
  const fs::path root = surroundings.root;
  if (vendor == Vendor::kNvidia) {
    for (const fs::path& install : Beginning(root / "usr/local", "cuda")) {
      folders.AddInstall(install);
    }
  } else {
    for (const fs::path& install : Beginning(root / "opt", "rocm")) {
      folders.AddInstall(install);
      for (const fs::path& core : Beginning(install, "core")) folders.AddInstall(core);
    }
  }
  return folders.Take();
}

std::vector<std::string> PackageFolders(Vendor vendor, const VendorSurroundings& surroundings) {
  Folders folders;
  if (surroundings.own_library.empty()) return {};
  // <packages>/onnxruntime_ep_tunableop/libonnxruntime_providers_tunableop.so
  const fs::path packages = fs::path(surroundings.own_library).parent_path().parent_path();
  if (packages.empty()) return {};
  if (vendor == Vendor::kNvidia) {
    for (const fs::path& bundle : Beginning(packages / "nvidia", "cu1")) {  // cu13
      folders.Add(bundle / "lib");
    }
    folders.Add(packages / "nvidia/cuda_runtime/lib");
    folders.Add(packages / "nvidia/cublas/lib");
    folders.Add(packages / "nvidia/cuda_nvrtc/lib");
  } else {
    folders.Add(packages / "_rocm_sdk_core/lib");
    for (const fs::path& libraries : Beginning(packages, "_rocm_sdk_libraries")) {
      folders.Add(libraries / "lib");
    }
  }
  folders.Add(packages / "torch/lib");
  return folders.Take();
}

std::vector<std::string> VendorFolders(Vendor vendor) {
  const VendorSurroundings& surroundings = OwnSurroundings(vendor);
  std::vector<std::string> folders = InstallFolders(vendor, surroundings);
  for (std::string& folder : PackageFolders(vendor, surroundings)) {
    folders.push_back(std::move(folder));
  }
  return folders;
}

NameFit FitOf(std::string_view file, std::string_view soname) noexcept {
  const std::string_view stem = StemOf(soname);
  const std::string_view version = soname.substr(std::min(soname.size(), stem.size() + 4));
  if (!file.starts_with(stem)) return NameFit::kNo;
  const std::string_view own = StemOf(file);
  if (own.size() == file.size()) return NameFit::kNo;  // no ".so"
  const bool hashed = own.size() > stem.size();
  if (hashed && (own[stem.size()] != '-' || !IsHash(own.substr(stem.size() + 1)))) {
    return NameFit::kNo;
  }
  std::string_view rest = file.substr(own.size() + 3);
  if (rest.empty()) return NameFit::kUnversioned;
  if (rest.front() != '.') return NameFit::kNo;
  rest.remove_prefix(1);
  if (!IsVersion(rest, version)) return NameFit::kNo;
  return hashed ? NameFit::kHashed : NameFit::kExact;
}

std::vector<size_t> FittingFiles(std::span<const std::string> names,
                                 std::span<const char* const> sonames) {
  std::vector<size_t> order;
  const auto take = [&](const char* soname, NameFit wanted) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (FitOf(names[i], soname) != wanted) continue;
      if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
    }
  };
  for (const char* soname : sonames) {
    take(soname, NameFit::kExact);
    take(soname, NameFit::kHashed);
  }
  // Of no version by its name: after all that have one.
  for (const char* soname : sonames) take(soname, NameFit::kUnversioned);
  return order;
}

}  // namespace tunableop
