#include "backends/gpu/vendor_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "backends/gpu/vendor_search.h"

namespace tunableop {
namespace {

namespace fs = std::filesystem;

// Not global: a vendor's symbols must not take the place of those of another copy in this process.
constexpr int kFlags = RTLD_NOW | RTLD_LOCAL;

std::string LoaderWords() {
  const char* words = dlerror();
  return words != nullptr ? words : "unknown loader error";
}

std::string BaseName(std::string_view path) {
  return std::string(path.substr(path.find_last_of('/') + 1));  // npos + 1 is 0
}

// Paths of what is loaded. The callback runs under the loader's lock: it only copies.
std::vector<std::string> LoadedFiles() {
  std::vector<std::string> files;
  const auto note = [](dl_phdr_info* info, size_t /*size*/, void* context) {
    if (info->dlpi_name != nullptr && *info->dlpi_name != '\0') {
      static_cast<std::vector<std::string>*>(context)->emplace_back(info->dlpi_name);
    }
    return 0;
  };
  dl_iterate_phdr(note, &files);
  return files;
}

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    files.push_back(entry->path().string());
  }
  // The plain name first: what a folder has it as a link for.
  std::sort(files.begin(), files.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return files;
}

const link_map* MapOf(void* handle) noexcept {
  link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0 ? map : nullptr;
}

// The name that a library has inside; empty: none.
std::string SonameOf(const link_map& map) {
  ElfW(Addr) strings = 0;
  std::optional<ElfW(Xword)> offset;
  for (const ElfW(Dyn)* entry = map.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = entry->d_un.d_ptr;
    if (entry->d_tag == DT_SONAME) offset = entry->d_un.d_val;
  }
  if (strings == 0 || !offset.has_value()) return "";
  // glibc puts addresses there, other loaders leave what is in the file.
  if (strings < map.l_addr) strings += map.l_addr;
  return reinterpret_cast<const char*>(strings + *offset);
}

// The loader says "no such file" of a file that is there and is for another processor.
std::string AboutProcessor(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, sizeof(Elf64_Ehdr)> bytes = {};
  if (!file.read(bytes.data(), bytes.size())) return "";
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "";
#if defined(__x86_64__)
  constexpr int kOurs = EM_X86_64;
#elif defined(__aarch64__)
  constexpr int kOurs = EM_AARCH64;
#else
  const int kOurs = header.e_machine;  // not known: say nothing
#endif
  if (header.e_machine == kOurs && header.e_ident[EI_CLASS] == ELFCLASS64) return "";
  return " (built for another kind of processor: ELF machine " + std::to_string(header.e_machine) +
         ")";
}

}  // namespace

// One search: what was found and could not be used.
class VendorSearch {
 public:
  VendorSearch(Vendor vendor, std::span<const char* const> sonames,
               const VendorSurroundings& surroundings)
      : vendor_(vendor), sonames_(sonames), surroundings_(surroundings) {}

  Result<VendorLibrary> Find() {
    if (auto library = InProcess()) return std::move(*library);
    const std::vector<std::string> chosen = ChosenFolders(surroundings_);
    const bool only_chosen = !surroundings_.chosen.empty();
    if (auto library = InFolders(chosen)) return std::move(*library);
    std::vector<std::string> folders;
    if (!only_chosen) {
      if (auto library = InLoaderPath()) return std::move(*library);
      folders = InstallFolders(vendor_, surroundings_);
      for (std::string& folder : PackageFolders(vendor_, surroundings_)) {
        folders.push_back(std::move(folder));
      }
      if (auto library = InFolders(folders)) return std::move(*library);
    }
    if (!refused_.empty()) return Status(StatusCode::kNotSupported, std::move(refused_));
    return Status(StatusCode::kNotFound, WhereItLooked(folders));
  }

 private:
  std::optional<VendorLibrary> InProcess() {
    for (const char* soname : sonames_) {
      if (auto library = Open(soname, kFlags | RTLD_NOLOAD)) return library;
    }
    return FirstOf(LoadedFiles(), kFlags | RTLD_NOLOAD);
  }

  std::optional<VendorLibrary> InFolders(const std::vector<std::string>& folders) {
    for (const std::string& folder : folders) {
      if (auto library = FirstOf(FilesIn(folder), kFlags)) return library;
    }
    return std::nullopt;
  }

  std::optional<VendorLibrary> InLoaderPath() {
    for (const char* soname : sonames_) {
      if (auto library = Open(soname, kFlags)) return library;
    }
    return std::nullopt;
  }

  std::optional<VendorLibrary> FirstOf(const std::vector<std::string>& paths, int flags) {
    std::vector<std::string> names;
    names.reserve(paths.size());
    for (const std::string& path : paths) names.push_back(BaseName(path));
    for (const size_t index : FittingFiles(names, sonames_)) {
      if (auto library = Open(paths[index], flags)) return library;
    }
    return std::nullopt;
  }

  std::optional<VendorLibrary> Open(const std::string& name, int flags) {
    const bool is_path = name.find('/') != std::string::npos;
    void* handle = dlopen(name.c_str(), flags);
    if (handle == nullptr) {
      const std::string words = LoaderWords();
      if ((flags & RTLD_NOLOAD) != 0) return std::nullopt;  // not loaded
      // A name that nothing answers to is what the loader begins its words with; of a file that it
      // refuses, they begin with its path.
      if (!is_path && words.starts_with(name + ":")) return std::nullopt;
      std::error_code error;
      if (is_path && !fs::exists(name, error)) return std::nullopt;  // a link to nowhere
      Refuse(words + (is_path ? AboutProcessor(name) : ""));
      return std::nullopt;
    }
    VendorLibrary library;
    library.handle_ = handle;
    library.path_ = name;
    if (const link_map* map = MapOf(handle)) {
      if (map->l_name != nullptr && *map->l_name != '\0') library.path_ = map->l_name;
      const std::string inside = SonameOf(*map);
      if (!IsOneOfOurs(inside)) {
        Refuse(library.path_ + " is " + inside);
        dlclose(handle);
        return std::nullopt;
      }
    }
    return library;
  }

  // A name without a version says nothing. One with another version than those asked for is a
  // library whose interface nobody has looked at.
  bool IsOneOfOurs(std::string_view soname) const noexcept {
    if (soname.find(".so.") == std::string_view::npos) return true;
    return std::any_of(sonames_.begin(), sonames_.end(),
                       [&](const char* ours) { return FitOf(soname, ours) != NameFit::kNo; });
  }

  void Refuse(const std::string& why) {
    if (refused_.find(why) != std::string::npos) return;  // found in two places
    if (!refused_.empty()) refused_ += "; ";
    refused_ += why;
  }

  std::string WhereItLooked(const std::vector<std::string>& folders) const {
    std::string text;
    for (const char* soname : sonames_) text += (text.empty() ? "" : ", ") + std::string(soname);
    const std::string variable = ChosenVariable(vendor_);
    if (!surroundings_.chosen.empty()) {
      return text + ": not loaded already, and not in " + variable + " (" + surroundings_.chosen +
             ")";
    }
    text += ": not loaded already, and not in the loader's path";
    for (const std::string& folder : folders) text += ", " + folder;
    return text + " (" + variable + " names other folders)";
  }

  const Vendor vendor_;
  const std::span<const char* const> sonames_;
  const VendorSurroundings& surroundings_;
  std::string refused_;
};

Result<VendorLibrary> VendorLibrary::Load(Vendor vendor, std::span<const char* const> sonames) {
  return Load(vendor, sonames, OwnSurroundings(vendor));
}

Result<VendorLibrary> VendorLibrary::Load(Vendor vendor, std::span<const char* const> sonames,
                                          const VendorSurroundings& surroundings) {
  return VendorSearch(vendor, sonames, surroundings).Find();
}

void* VendorLibrary::Symbol(const char* name) const noexcept {
  return handle_ != nullptr ? dlsym(handle_, name) : nullptr;
}

}  // namespace tunableop
