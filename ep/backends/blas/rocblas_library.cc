#include "backends/blas/rocblas_library.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

namespace tunableop::blas {
namespace {

namespace fs = std::filesystem;

const char* Words(int status) noexcept {
  switch (status) {
    case hip_abi::rocblas_status_invalid_handle:
      return "invalid handle";
    case hip_abi::rocblas_status_not_implemented:
      return "not implemented";
    case hip_abi::rocblas_status_invalid_pointer:
      return "invalid pointer";
    case hip_abi::rocblas_status_invalid_size:
      return "invalid size";
    case hip_abi::rocblas_status_memory_error:
      return "not enough memory or workspace";
    case hip_abi::rocblas_status_internal_error:
      return "internal error";
    case hip_abi::rocblas_status_invalid_value:
      return "invalid value";
    case hip_abi::rocblas_status_check_numerics_fail:
      return "the check for NaN failed";
    case hip_abi::rocblas_status_excluded_from_build:
      return "excluded from this build";
    case hip_abi::rocblas_status_arch_mismatch:
      return "not for this architecture";
    default:
      return nullptr;
  }
}

StatusCode CodeOf(int status) noexcept {
  switch (status) {
    case hip_abi::rocblas_status_memory_error:
      return StatusCode::kOutOfMemory;
    case hip_abi::rocblas_status_not_implemented:
    case hip_abi::rocblas_status_invalid_size:
    case hip_abi::rocblas_status_invalid_value:
    case hip_abi::rocblas_status_excluded_from_build:
    case hip_abi::rocblas_status_arch_mismatch:
      return StatusCode::kNotSupported;
    default:
      return StatusCode::kInternal;
  }
}

std::string VersionOf(const VendorLibrary& library) {
  const auto size_of = reinterpret_cast<hip_abi::rocblas_get_version_string_size_fn>(
      library.Symbol("rocblas_get_version_string_size"));
  const auto get = reinterpret_cast<hip_abi::rocblas_get_version_string_fn>(
      library.Symbol("rocblas_get_version_string"));
  constexpr size_t kLongest = 4096;
  size_t size = 0;
  if (size_of == nullptr || get == nullptr || size_of(&size) != hip_abi::rocblas_status_success ||
      size == 0 || size > kLongest) {
    return "unknown";
  }
  std::string version(size + 1, '\0');  // older versions count without the zero at the end
  if (get(version.data(), version.size()) != hip_abi::rocblas_status_success) return "unknown";
  version.resize(version.find('\0'));
  return version.empty() ? "unknown" : version;
}

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// As rocBLAS finds it. Empty: it would not find it either, or it has its kernels elsewhere.
fs::path KernelFolder(const std::string& library_path) {
  const char* chosen = std::getenv("ROCBLAS_TENSILE_LIBPATH");
  if (chosen != nullptr && *chosen != '\0') return Exists(chosen) ? chosen : "";
  const fs::path home = fs::path(library_path).parent_path();
  if (home.empty()) return {};
  for (const char* below :
       {"../../Tensile/library", "library", "../rocblas/library", "rocblas/library"}) {
    if (Exists(home / below)) return home / below;
  }
  return {};
}

}  // namespace

Result<RocblasLibrary> BindRocblas(const VendorLibrary& library) {
  RocblasLibrary bound;
  const char* missing = nullptr;
  const auto find = [&](const char* symbol, auto& function, bool optional = false) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(library.Symbol(symbol));
    if (function == nullptr && !optional && missing == nullptr) missing = symbol;
  };
  find("rocblas_create_handle", bound.create_handle);
  find("rocblas_destroy_handle", bound.destroy_handle);
  find("rocblas_set_stream", bound.set_stream);
  find("rocblas_set_pointer_mode", bound.set_pointer_mode);
  find("rocblas_set_atomics_mode", bound.set_atomics_mode);
  find("rocblas_set_workspace", bound.set_workspace);
  find("rocblas_gemm_ex", bound.gemm_ex);
  find("rocblas_gemm_strided_batched_ex", bound.gemm_strided_batched_ex);
  find("rocblas_gemm_ex_get_solutions", bound.gemm_ex_get_solutions, true);
  find("rocblas_gemm_strided_batched_ex_get_solutions", bound.gemm_strided_batched_ex_get_solutions,
       true);
  if (missing != nullptr) {
    return Status(StatusCode::kNotFound, library.path() + " has no symbol " + missing);
  }
  if (bound.gemm_ex_get_solutions == nullptr ||
      bound.gemm_strided_batched_ex_get_solutions == nullptr) {
    bound.gemm_ex_get_solutions = nullptr;
    bound.gemm_strided_batched_ex_get_solutions = nullptr;
  }
  bound.version = VersionOf(library);
  return bound;
}

Status ToStatus(const char* function, int status) {
  if (status == hip_abi::rocblas_status_success ||
      status == hip_abi::rocblas_status_perf_degraded) {
    return Status::Ok();
  }
  const char* words = Words(status);
  return {CodeOf(status), std::string(function) + ": " +
                              (words != nullptr ? words : "status " + std::to_string(status))};
}

Status KernelsPresent(const std::string& library_path, const std::string& arch) {
  const fs::path folder = KernelFolder(library_path);
  if (folder.empty() || arch.empty()) return Status::Ok();
  const fs::path own = Exists(folder / arch) ? folder / arch : folder;
  for (const std::string& name :
       {"TensileLibrary_lazy_" + arch, "TensileLibrary_" + arch, std::string("TensileLibrary")}) {
    if (Exists(own / (name + ".dat")) || Exists(own / (name + ".yaml"))) return Status::Ok();
  }
  return {StatusCode::kNotSupported,
          "rocBLAS has no kernels for " + arch + " in " + own.lexically_normal().string()};
}

}  // namespace tunableop::blas
