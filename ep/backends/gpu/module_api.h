// The functions that load code on a card and launch kernels of it. HIP's runtime has them itself;
// CUDA's are the driver's. They have the same shape, and the driver's codes are the runtime's
// numbers.
#pragma once

#include <string>

#include "abi/cuda_api.h"
#include "abi/hip_api.h"
#include "backends/gpu/vendor_library.h"

namespace tunableop {

// What it is called here, in CUDA's driver, in HIP.
#define TUNABLEOP_MODULE_FUNCTIONS(X)                       \
  X(LoadData, cuModuleLoadData, hipModuleLoadData)          \
  X(Unload, cuModuleUnload, hipModuleUnload)                \
  X(GetFunction, cuModuleGetFunction, hipModuleGetFunction) \
  X(Launch, cuLaunchKernel, hipModuleLaunchKernel)

struct ModuleApi {
#define TUNABLEOP_MEMBER(member, cuda, hip) cuda_abi::cuda##_fn member = nullptr;
  TUNABLEOP_MODULE_FUNCTIONS(TUNABLEOP_MEMBER)
#undef TUNABLEOP_MEMBER

  // `runtime`: the vendor's. What is missing stays null.
  static ModuleApi Bind(Vendor vendor, const VendorLibrary& runtime);

  bool complete() const noexcept { return Launch != nullptr; }
  // For a person: which library lacks what. Empty where it is complete.
  const std::string& missing() const noexcept { return missing_; }
  // Whether loading failed with `code` for what is in the image: damaged, or for another card.
  static bool IsUnfit(int code) noexcept;

 private:
  std::string missing_ = "no library was asked for functions that load code";
};

}  // namespace tunableop
